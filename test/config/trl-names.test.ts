/** Hints for users of TRL: TRL names are checked against TRL 1.13 itself, ours against the schema. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CONFIG_KEYS, parseAssignments, readConfigFile, resolveConfig } from '../../src/config';
import { OTHER_ABSENT, OTHER_NAMES, TRL_ABSENT } from '../../src/config/foreign-names';
import { TRL_SETTINGS, trlNameOf } from '../../src/config/trl-names';

const ROOT = join(__dirname, '..', '..');
const trl = JSON.parse(readFileSync(join(ROOT, 'test', 'fixtures', 'trl-settings.json'), 'utf8')) as {
  versions: Record<string, string>;
  settings: Record<string, { of: string; default: string }>;
};
/** Names from older versions that people still type. */
const OLDER = ['evaluation_strategy', 'max_prompt_length', 'no_cuda', 'warmup_ratio'];
const plain = (name: string) => name.toLowerCase().replaceAll('_', '');

test('every name in the table exists in TRL, transformers or PEFT', () => {
  expect(trl.versions.trl).toBe('1.13.0');
  const unknown = Object.keys(TRL_SETTINGS).filter((name) => trl.settings[name] === undefined);
  expect(unknown.sort()).toEqual(OLDER);
});

const answerTo = (settings: object): string => {
  try {
    resolveConfig([settings]);
  } catch (error) {
    return (error as Error).message;
  }
  return '';
};

/** With ours, with why there is none, or as ours in another spelling. */
const ANSWERED = /unknown setting; (use `|it has no counterpart here: .|did you mean `)/;

test('every name of TRL, transformers and PEFT is answered with ours, or with why there is none', () => {
  const names = Object.keys(trl.settings);
  expect(names.length).toBeGreaterThan(280);
  const own = new Set(CONFIG_KEYS);
  const unanswered = names.filter((name) => !own.has(name) && !ANSWERED.test(answerTo({ [name]: 1 })));
  expect(unanswered).toEqual([]);
  // Another spelling of ours, and nothing that merely looks like it.
  const guessed = names.filter((name) => /did you mean/.test(answerTo({ [name]: 1 })));
  const ours = new Set(CONFIG_KEYS.map(plain));
  expect(guessed.filter((name) => !ours.has(plain(name)))).toEqual([]);
});

test('camelCase, YAML and --set are answered alike', () => {
  const yaml = join(mkdtempSync(join(tmpdir(), 'acoer-trl-')), 'run.yaml');
  writeFileSync(yaml, 'report_to: wandb\n');
  const answers = [
    { reportTo: 'wandb' },
    { report_to: 'wandb' },
    parseAssignments(['report_to=wandb']),
    readConfigFile(yaml),
  ].map(answerTo);
  for (const answer of answers) expect(answer).toMatch(/use `tensorboard` and `csv` and `sinks` instead: /);
});

test('names without a counterpart are listed once, and each with a reason', () => {
  const absent = [...TRL_ABSENT.keys()];
  expect(absent.filter((name) => TRL_SETTINGS[name] !== undefined)).toEqual([]);
  expect(
    [...OTHER_ABSENT.keys(), ...Object.keys(OTHER_NAMES)].filter((name) => TRL_ABSENT.has(name)),
  ).toEqual([]);
  expect(Object.values(OTHER_NAMES).filter((name) => !CONFIG_KEYS.includes(name))).toEqual([]);
});

test('every setting that TRL also has is in the table', () => {
  const ours = new Set(CONFIG_KEYS.map(plain));
  const shared = Object.keys(trl.settings).filter((name) => ours.has(plain(name)));
  expect(shared.length).toBeGreaterThan(30);
  expect(shared.filter((name) => TRL_SETTINGS[name] === undefined)).toEqual([]);
});

test('our names exist, in the table and in the example', () => {
  const named = Object.values(TRL_SETTINGS).flatMap(({ ours }) => ours);
  const page = readFileSync(join(ROOT, 'docs', 'from-trl.md'), 'utf8');
  const example = /```ts\n([^]*?)```/.exec(page)![1]!;
  const set = [...example.matchAll(/^ {2}(\w+):/gm)].map(([, name]) => name!);
  expect(set.length).toBeGreaterThan(5);
  expect([...named, ...set].filter((name) => !CONFIG_KEYS.includes(name))).toEqual([]);
});

test('the documentation of a setting names its TRL equivalent', () => {
  expect(trlNameOf('numGenerations')).toBe('num_generations');
  expect(trlNameOf('loraRank')).toBe('lora_r');
  expect(trlNameOf('microBatchTokens')).toBeNull();
});

test.each([
  ['num_generations', /unknown setting; did you mean `numGenerations`\?$/],
  ['per_device_train_batch_size', /use `promptsPerStep` and `microBatchTokens` instead: /],
  ['perDeviceTrainBatchSize', /use `promptsPerStep` and `microBatchTokens` instead: /],
  ['lora_r', /use `loraRank` instead$/],
  ['num_train_epochs', /use `maxSteps` instead: the length of a run/],
  ['output_dir', /no counterpart here: .*--out DIR/],
  ['wandb', /it has no counterpart here: metrics go to .*`sinks`/],
  ['load_in_4bit', /use `quantization` instead: true: nf4$/],
  ['loadIn8bit', /use `quantization` instead: true: int8$/],
  ['use_bnb_nested_quant', /it has no counterpart here: nf4 always has it/],
  ['load_in_fp8', /it has no counterpart here: the base is quantised by `quantization`/],
  ['torch_dtype', /use `dtype` instead: /],
  ['callbacks', /use `sinks` instead: /],
  ['n_samples_per_prompt', /use `numGenerations` instead$/],
  ['kl_coef', /use `beta` instead$/],
  ['max_response_length', /use `maxCompletionLength` instead$/],
  ['push_to_hub', /it has no counterpart here: nothing is uploaded/],
  ['maxStep', /did you mean `maxSteps`\?$/],
])('typing %s gives the hint', (name, sentence) => {
  expect(() => resolveConfig([{ [name]: 1 }])).toThrow(sentence);
});
