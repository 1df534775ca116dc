/**
 * README.md of what is pushed. It is written anew: of the card in the run or in the exported folder it takes rows of
 * tables whose names and forms are listed here, so nothing that someone or something else wrote there is published.
 */
import { stringify } from 'yaml';
import { badInput, errorMessage } from '../base/errors';
import { isRecord, type JsonRecord } from '../base/json';
import { packageVersion } from '../base/version';
import { parseYaml } from '../base/yaml';
import { isKnownName, joinNames, partNames } from '../data';
import { TARGET_MODULES } from '../engine/types';
import { looksLikeHubId, splitRevision } from '../hub';
import { isBuiltInLoss } from '../losses/registry';
import { isBuiltIn } from '../rewards/registry';
import { table } from '../train/model-card';

export interface CardContent {
  /** The repository, and its branch. */
  id: string;
  branch: string;
  kind: 'adapter' | 'model';
  /** `org/name` of the base model; null: it is not on a hub, or not known. */
  base: string | null;
  step: number | null;
  /** The card that the run or the export wrote; '' if there is none. */
  source: string;
  /** Whether the source's evaluation is of these weights. */
  evaluated: boolean;
}

const FRONT = /^---\n([^]*?)\n---\n/;
const TAGS = ['acoer', 'grpo', 'sft', 'lora', 'reasoning'];

const NUMBER = String.raw`-?\d+(?:\.\d+)?(?:e[+-]?\d+)?`;
const RANGE = String.raw`${NUMBER}(?: to ${NUMBER})?`;
const like = (form: string) => {
  const pattern = new RegExp(`^${form.replaceAll('#', NUMBER).replaceAll('~', RANGE)}$`);
  return (value: string): string | null => (pattern.test(value) ? value : null);
};

/** A data set's name if it is public; that of a file is its owner's. */
function dataName(value: string): string {
  const names = partNames(value.replaceAll('`', '')).map((name) => {
    const { id } = splitRevision(name);
    const known = isKnownName(id) || looksLikeHubId(name);
    return known ? name : 'data of their own';
  });
  return joinNames(names);
}

const rewardName = (value: string): string =>
  value
    .split('+')
    .map((name) => (isBuiltIn(name) ? name : 'one of their own'))
    .join(' + ');

const ofModules = (value: string): string | null => {
  const [, names, count] = /^([a-z_, ]+) \((\d+) linears\)$/.exec(value) ?? [];
  const known = names?.split(', ').every((name) => (TARGET_MODULES as readonly string[]).includes(name));
  return known === true && count !== undefined ? value : null;
};

const lossOf = (value: string): string | null => {
  const name = like('[a-z_]+, beta #')(value)?.split(',')[0];
  return name !== undefined && isBuiltInLoss(name) ? value : null;
};

/** Rows of `## Training`, and what is published of their values; null: nothing. */
const TRAINING: Readonly<Record<string, (value: string) => string | null>> = {
  reward: rewardName,
  'training data': dataName,
  steps: like('#'),
  examples: like('#'),
  'steps x examples': like('# x #'),
  'prompts per step x completions': like('# x #'),
  'longest completion': like('# tokens'),
  'longest example': like("(?:# tokens|the model's context)"),
  loss: (value) =>
    lossOf(value) ??
    like('negative log-likelihood per completion token: # in the first step, # in the last')(value),
  'held out': like('# before and # after training, on # examples'),
  'learning rate': like('#, (?:linear|cosine|constant)'),
  trained: like('all weights, in (?:float32|float64|bfloat16)'),
  LoRA: like('rank ~, alpha ~, dropout #'),
  'LoRA (rsLoRA)': like('rank ~, alpha ~, dropout #'),
  'target modules': ofModules,
  seed: like('#'),
  rollbacks: like('#'),
  'another reward file': like('from step # on'),
  'forked from another run': like('at step #'),
};

const ofCount = like('# of #');
const figure = like('#%?');
const EXACTNESS: Readonly<Record<string, (value: string) => string | null>> = {
  "greedy answers equal to the run's": ofCount,
  'tokens compared': figure,
  'mean difference of their log-probs': figure,
  'largest difference': figure,
  'KL(run, export) per token, nats': figure,
  'rounding error of the weights, of the update': figure,
  'adapted weights that stayed as they were': figure,
};

const DECODING = ['greedy', 'sampled at temperature 1'];

/** A section of a card without its heading; '' if there is none. */
function section(card: string, heading: string): string {
  const found = card.split(/^(?=## )/m).find((part) => part.startsWith(`## ${heading}\n`));
  return found?.slice(heading.length + 3) ?? '';
}

/** The cells of the first table's rows, without its head. */
function rowsOf(text: string): string[][] {
  const lines = text.split('\n').filter((line) => line.startsWith('| '));
  return lines
    .slice(2)
    .map((line) => line.replace(/^\| | \|$/g, '').split(' | '))
    .filter((cells) => cells.length > 1);
}

function publishedRows(
  text: string,
  allowed: Readonly<Record<string, (value: string) => string | null>>,
): [string, string][] {
  return rowsOf(text).flatMap(([name, value]): [string, string][] => {
    if (!Object.hasOwn(allowed, name!)) return [];
    const published = allowed[name!]!(value!);
    return published === null ? [] : [[name!, published]];
  });
}

function evaluation({ source, evaluated }: CardContent): string {
  const text = section(source, 'Evaluation before and after training');
  const rows = rowsOf(text).filter(
    ([name, ...values]) =>
      DECODING.includes(name!) && values.length === 5 && values.every((value) => figure(value) !== null),
  );
  if (!evaluated || rows.length === 0) return '';
  const head = ['decoding', 'n', 'accuracy before', 'after', 'thinking tokens before', 'after'];
  const name = /^On `([^`]+)`/m.exec(text)?.[1] ?? '';
  return `## Evaluation before and after training

On ${dataName(name)}, n problems, one answer each; thinking tokens are means over all answers.

${table([head, ...rows])}

`;
}

function training({ source, evaluated, step }: CardContent): string {
  const rows = publishedRows(section(source, 'Training'), TRAINING).map(([name, value]) =>
    // Of a checkpoint the steps are those that it was trained for.
    name === 'steps' && !evaluated && step !== null ? [name, String(step)] : [name, value],
  );
  if (rows.length === 0) return '';
  return `## Training\n\n${table([['setting', 'value'], ...rows])}\n\n`;
}

function exactness({ source }: CardContent): string {
  const text = section(source, 'Exactness');
  const rows = publishedRows(text, EXACTNESS);
  if (rows.length === 0) return '';
  const type = /^\| +\| (float32|bfloat16|float16) \|$/m.exec(text)?.[1] ?? '';
  const lost = text.includes('**This is not the run')
    ? '\n\n**Rounding changed more of the answers than it should: these weights are not the run.**'
    : '';
  return `## Exactness

Weights and adapter were added in float32 and rounded once. The run and these weights were given the same prompts:

${table([['', type], ...rows])}${lost}

`;
}

/** The fields at the head of a card. @throws BAD_INPUT */
export function cardFields(card: string): JsonRecord {
  const text = FRONT.exec(card)?.[1] ?? '';
  const fields = parseYaml(text, (fault) =>
    badInput(`The head of README.md is not valid YAML (${errorMessage(fault)}); nothing was pushed.`, fault),
  );
  return isRecord(fields) ? fields : {};
}

function front({ kind, base, source }: CardContent): string {
  const { datasets, tags } = cardFields(source);
  const ids = (Array.isArray(datasets) ? datasets : []).filter(
    (id): id is string => typeof id === 'string' && looksLikeHubId(id),
  );
  const known = TAGS.filter((tag) => Array.isArray(tags) && tags.includes(tag));
  return `---\n${stringify({
    // Hubs reject a card whose base model is not one of theirs.
    ...(base !== null && {
      base_model: base,
      base_model_relation: kind === 'adapter' ? 'adapter' : 'finetune',
    }),
    ...(ids.length > 0 && { datasets: ids }),
    library_name: kind === 'adapter' ? 'peft' : 'transformers',
    pipeline_tag: 'text-generation',
    tags: known.length > 0 ? known : ['acoer', 'reasoning'],
  })}---`;
}

function use({ kind, id, branch }: CardContent): string {
  const loader = kind === 'adapter' ? 'AutoPeftModelForCausalLM' : 'AutoModelForCausalLM';
  const imports =
    kind === 'adapter'
      ? `from peft import ${loader}\nfrom transformers import AutoTokenizer`
      : `from transformers import ${loader}, AutoTokenizer`;
  const name = branch === 'main' ? `"${id}"` : `"${id}", revision="${branch}"`;
  return `## Use

\`\`\`python
${imports}

model = ${loader}.from_pretrained(${name})
tokenizer = AutoTokenizer.from_pretrained(${name})
\`\`\`
`;
}

const baseText = (base: string | null): string => (base === null ? 'a base model' : `\`${base}\``);

const ofStep = (step: number | null): string =>
  `${step === null ? 'the result' : `step ${step}`} of a run of acoer ${packageVersion()}`;

/** The card of an adapter or a model. */
export function pushedCard(content: CardContent): string {
  const { kind, base, step } = content;
  const what =
    kind === 'adapter'
      ? `A LoRA adapter in PEFT's format for ${baseText(base)}`
      : `${base === null ? 'A model' : `\`${base}\``} with all that was trained in its weights`;
  return `${front(content)}

# ${splitRevision(base ?? content.id)
    .id.split('/')
    .at(-1)!}, trained by acoer

${what}: ${ofStep(step)}.

${evaluation(content)}${training(content)}${exactness(content)}${use(content)}`;
}

/** The card of a GGUF file. @param lora it holds an adapter alone */
export function ggufCard(
  { id, base }: Pick<CardContent, 'id' | 'base'>,
  file: string,
  lora: boolean,
): string {
  const fields = {
    ...(base !== null && { base_model: base, base_model_relation: lora ? 'adapter' : 'quantized' }),
    pipeline_tag: 'text-generation',
    tags: ['acoer', 'gguf', 'reasoning'],
  };
  const what = lora
    ? `The LoRA adapter of a run of acoer for ${baseText(base)}, to be used with a GGUF file of it`
    : `A model trained by acoer${base === null ? '' : ` from \`${base}\``}, with its tokenizer and chat template`;
  const command = lora ? `llama-cli -m BASE.gguf --lora ${file}` : `llama-cli -hf ${id} -hff ${file}`;
  return `---\n${stringify(fields)}---

# ${id.split('/').at(-1)!}, for llama.cpp

${what}.

\`\`\`
${command}
\`\`\`
`;
}
