/** Hints for users of TRL: TRL names are checked against TRL 1.13 itself, ours against the schema. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONFIG_KEYS, resolveConfig } from '../../src/config';
import { TRL_SETTINGS, trlNameOf } from '../../src/config/trl-names';

const ROOT = join(__dirname, '..', '..');
const trl = JSON.parse(readFileSync(join(ROOT, 'test', 'fixtures', 'trl-settings.json'), 'utf8')) as {
  versions: Record<string, string>;
  settings: Record<string, { of: string; default: string }>;
};
/** Names from older versions that people still type. */
const OLDER = ['max_prompt_length', 'warmup_ratio'];
const plain = (name: string) => name.toLowerCase().replaceAll('_', '');

test('every name in the table exists in TRL, transformers or PEFT', () => {
  expect(trl.versions.trl).toBe('1.13.0');
  const unknown = Object.keys(TRL_SETTINGS).filter((name) => trl.settings[name] === undefined);
  expect(unknown.sort()).toEqual(OLDER);
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
  ['maxStep', /did you mean `maxSteps`\?$/],
])('typing %s gives the hint', (name, sentence) => {
  expect(() => resolveConfig([{ [name]: 1 }])).toThrow(sentence);
});
