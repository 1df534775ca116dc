/** README.md of `final/`: what was trained, on what, how and with what result. Hubs read the front matter. */
import { basename, isAbsolute } from 'node:path';
import { stringify } from 'yaml';
import { trainCommand, type Config } from '../config';
import { joinNames, KNOWN_DATASETS, partNames, type Dataset } from '../data';
import { looksLikeHubId, splitRevision } from '../hub';
import type { LoraMatrix } from '../engine/types';
import type { EvalSummary } from '../eval';
import { isJudgeFile } from '../judges';
import { maximum, minimum } from '../base/statistics';
import { percent } from '../base/text';
import { packageVersion } from '../base/version';
import type { RunSummary } from '../life/events';

export interface CardContent {
  config: Config;
  summary: RunSummary;
  trainData: Pick<Dataset, 'name' | 'source'>;
  /** null: nothing was evaluated. */
  evalData: Pick<Dataset, 'name'> | null;
  /** The step this run was forked at; null if it is not a fork. */
  forkedAt: number | null;
  /** The linears that the adapter adapts; none for a run of all weights. */
  adapted: readonly LoraMatrix[];
}

/** A card is published, so it gives only the last part of a path. */
export const published = (name: string): string => (isAbsolute(name) ? basename(name) : name);

export const publishedData = (name: string): string => joinNames(partNames(name).map(published));

/** The hub's data sets among the parts of a pinned name. */
function hubDatasets(pinned: string): string[] {
  const ids = partNames(pinned).map((name) => splitRevision(name).id);
  const repos = ids.map((id) => (Object.hasOwn(KNOWN_DATASETS, id) ? KNOWN_DATASETS[id]!.repo : id));
  return repos.filter((repo) => !isAbsolute(repo) && looksLikeHubId(repo));
}

/** @param method how it was trained, a tag on the hub */
export function frontMatter(
  { model, full }: Pick<Config, 'model' | 'full'>,
  trainData: CardContent['trainData'],
  method: string,
): string {
  const relation = full ? 'finetune' : 'adapter';
  const datasets = hubDatasets(trainData.source?.pinned ?? '');
  const fields = {
    // Hubs reject a card whose base model is not one of theirs.
    ...(looksLikeHubId(model) && { base_model: splitRevision(model).id, base_model_relation: relation }),
    ...(datasets.length > 0 && { datasets }),
    library_name: full ? 'transformers' : 'peft',
    pipeline_tag: 'text-generation',
    tags: ['acoer', method, ...(full ? [] : ['lora']), 'reasoning'],
  };
  return `---\n${stringify(fields)}---`;
}

export const table = (rows: readonly (readonly string[])[]): string =>
  [rows[0]!, rows[0]!.map(() => '---'), ...rows.slice(1)].map((row) => `| ${row.join(' | ')} |`).join('\n');

function evaluationRow(name: string, base: EvalSummary, trained: EvalSummary): string[] {
  const [before, after] = [base.thinkingTokens, trained.thinkingTokens];
  const tokens = [before.toFixed(1), after.toFixed(1)];
  return [name, String(trained.n), percent(base.accuracy), percent(trained.accuracy), ...tokens];
}

function evaluation({ summary: { base, trained }, evalData }: CardContent): string {
  const rows = (['greedy', 'sampled'] as const).flatMap((kind) => {
    const [before, after] = [base[kind], trained[kind]];
    const name = kind === 'greedy' ? 'greedy' : 'sampled at temperature 1';
    return before !== null && after !== null ? [evaluationRow(name, before, after)] : [];
  });
  if (rows.length === 0 || evalData === null) return 'This run was not evaluated.';
  const head = ['decoding', 'n', 'accuracy before', 'after', 'thinking tokens before', 'after'];
  return `On \`${publishedData(evalData.name)}\`, n problems, one answer each; thinking tokens are means over all answers.\n\n${table([head, ...rows])}`;
}

type Trained = Pick<
  Config,
  | 'model'
  | 'full'
  | 'dtype'
  | 'quantization'
  | 'loraRank'
  | 'loraAlpha'
  | 'loraDropout'
  | 'useRslora'
  | 'targetModules'
>;

/** One number, or the range of several. */
function shownRange(values: readonly number[]): string {
  const [low, high] = [minimum(values), maximum(values)];
  return low === high ? String(low) : `${low} to ${high}`;
}

/** What was trained, as rows of the table of settings. @param adapted the linears that the adapter adapts */
export function trainedRows(config: Trained, adapted: readonly LoraMatrix[]): string[][] {
  if (config.full) return [['trained', `all weights, in ${config.dtype}`]];
  const { loraDropout, useRslora, targetModules } = config;
  const ranks = shownRange(adapted.map(({ rank }) => rank));
  const alphas = shownRange(adapted.map(({ alpha }) => alpha));
  return [
    [useRslora ? 'LoRA (rsLoRA)' : 'LoRA', `rank ${ranks}, alpha ${alphas}, dropout ${loraDropout}`],
    ...(config.quantization === null
      ? []
      : [['base weights', `${config.quantization}, quantised when loaded`]]),
    ['target modules', `${targetModules.join(', ')} (${adapted.length} linears)`],
  ];
}

function training({ config, summary, trainData, forkedAt, adapted }: CardContent): string {
  const { run } = summary;
  const rows = [
    ['setting', 'value'],
    ['reward', run.reward],
    ['training data', `\`${publishedData(trainData.name)}\``],
    ['steps', String(run.steps)],
    ['prompts per step x completions', `${config.promptsPerStep} x ${config.numGenerations}`],
    ['longest completion', `${config.maxCompletionLength} tokens`],
    ['loss', `${config.lossType}, beta ${config.beta}`],
    ['learning rate', `${config.learningRate}, ${config.lrSchedulerType}`],
    ...trainedRows(config, adapted),
    ['seed', String(run.seed)],
    ...(run.rollbacks > 0 ? [['rollbacks', String(run.rollbacks)]] : []),
    ...(run.accepted ?? []).map(({ step }) => ['another reward file', `from step ${step + 1} on`]),
    ...(forkedAt !== null ? [['forked from another run', `at step ${forkedAt}`]] : []),
  ];
  return table(rows);
}

/** Without the folders of local files, for what is published. */
export function withPublishedNames(config: Config): Config {
  const { model, dataset, evalDataset, rewardModules } = config;
  const modules = Object.entries(rewardModules).map(([name, file]) => [name, published(file)]);
  return {
    ...config,
    model: published(model),
    dataset: publishedData(dataset),
    evalDataset: evalDataset === null ? null : publishedData(evalDataset),
    rewardModules: Object.fromEntries(modules) as Record<string, string>,
    sinks: config.sinks.map(published),
    adapter: config.adapter === null ? null : published(config.adapter),
    judge: isJudgeFile(config.judge) ? published(config.judge) : config.judge,
  };
}

/** What the folder holds. */
export function whatIsTrained({ model: name, full }: Trained): string {
  const model = published(name);
  const base = model === 'tiny' ? "Acoer's embedded model `tiny`" : `\`${model}\``;
  return full ? `All weights of ${base}` : `A LoRA adapter in PEFT's format for ${base}`;
}

/** How to load the folder in Python. */
export function howToUse({ full }: Trained): string {
  const loader = full ? 'AutoModelForCausalLM' : 'AutoPeftModelForCausalLM';
  const imports = full
    ? `from transformers import ${loader}, AutoTokenizer`
    : `from peft import ${loader}\nfrom transformers import AutoTokenizer`;
  return `## Use

\`\`\`python
${imports}

model = ${loader}.from_pretrained("this folder, or its name on the hub")
tokenizer = AutoTokenizer.from_pretrained("this folder, or its name on the hub")
\`\`\`
`;
}

export function modelCard(content: CardContent): string {
  const { config, summary, trainData } = content;
  const model = published(config.model);
  return `${frontMatter(config, trainData, 'grpo')}

# ${splitRevision(model).id} with GRPO and the reward ${summary.run.reward}

${whatIsTrained(config)}, trained by acoer ${packageVersion()} to think in fewer tokens.

## Evaluation before and after training

${evaluation(content)}

## Training

${training(content)}

The settings as a command, for a clone of acoer after \`npm ci\`. Models, data and reward files named without a folder
were local files of whoever trained this; data named memory: was held in their program's memory.

\`\`\`
${trainCommand(withPublishedNames(config))}
\`\`\`

${howToUse(config)}`;
}
