/** `configs/field`: published settings of papers that train R1-Distill-Qwen-1.5B, each with its source. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfigFile, type ConfigInput } from '../../src/config';
import { evalSpec, loadDataset, trainSpec } from '../../src/data';
import { resolveDatasetName } from '../../src/data/names';
import { namedDevice, plannedModel, planRun, type Plan } from '../../src/plan';
import { readMetrics } from '../../src/run';
import { train } from '../../src/train';
import { closeRewards, openRewards, resolveTrainConfig } from '../../src/train/inputs';
import { acoer, linesFile } from '../helpers/cli';
import type { RandomModelOptions } from '../helpers/random-model';
import { textModel } from '../helpers/text-model';

const FOLDER = join(__dirname, '..', '..', 'configs', 'field');
const root = mkdtempSync(join(tmpdir(), 'acoer-field-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const pathOf = (name: string) => join(FOLDER, `${name}.yaml`);
const resolved = (name: string) => resolveTrainConfig([readConfigFile(pathOf(name))]);

/** Small and random, with what R1-Distill-Qwen-1.5B has: biases, six heads on one of keys and values, a head of its own. */
const RANDOM: RandomModelOptions = {
  family: 'qwen2',
  hiddenSize: 96,
  intermediateSize: 192,
  numHeads: 6,
  numKvHeads: 1,
  headDim: 16,
  tieWordEmbeddings: false,
};

/** As the authors' scripts write it, in their units: `batch` and `update` count prompts. */
const SCRIPTS = {
  'arora-zanette': { batch: 32, update: 128 / 8, n: 8, length: 32000, rate: 5e-6, kl: 0.001, temperature: 1 },
  dler: { batch: 512, update: 64, n: 16, length: 4000, rate: 1e-6, kl: 0.0005, temperature: 1 },
  hapo: { batch: 16 / 2, update: 16 / 2, n: 2, length: 32768, rate: 1e-6, kl: 0.04, temperature: 0.7 },
  laser: { batch: 128, update: 64, n: 8, length: 16384, rate: 1e-6, kl: 0.001, temperature: 0.6 },
  'shorter-better': { batch: 128, update: 16, n: 8, length: 6000, rate: 1e-6, kl: 0.001, temperature: 0.9 },
  thinkprune: { batch: 128, update: 128, n: 16, length: 4000, rate: 1e-6, kl: 0.001, temperature: 1 },
};
const NAMES = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

test('the folder contains these papers', () => {
  expect(readdirSync(FOLDER).sort()).toEqual(NAMES.map((name) => `${name}.yaml`));
});

test.each(NAMES)('%s: its settings, rewards and names of data are valid', async (name) => {
  const config = resolved(name);
  expect(config.model).toBe('deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B');
  await closeRewards(await openRewards(config));
  expect(resolveDatasetName(trainSpec(config).name).kind).toBe(name === 'hapo' ? 'path' : 'hub');
  expect(resolveDatasetName(evalSpec(config).name)).toMatchObject({ repo: 'HuggingFaceH4/MATH-500' });
});

test.each(NAMES)("%s: batches, lengths and rates are those of the authors' script", (name) => {
  const { batch, update, n, length, rate, kl, temperature } = SCRIPTS[name];
  expect(resolved(name)).toMatchObject({
    promptsPerStep: update,
    stepsPerGeneration: batch / update,
    numIterations: 1,
    numGenerations: n,
    maxCompletionLength: length,
    learningRate: rate,
    beta: kl,
    temperature,
  });
});

test.each(NAMES)('%s: every value names its source, and every source is used', (name) => {
  const lines = readFileSync(pathOf(name), 'utf8').split('\n');
  const declared = lines.flatMap((line) => /^# {3}\[(\w+)\] +\S/.exec(line)?.[1] ?? []);
  const values = lines.filter((line) => /^ *[\w-]+: +[^ #]/.test(line));
  expect(values.length).toBeGreaterThan(25);
  const used = values.map((line) => / # (?:\[(\w+)\]|(not found): acoer's default)/.exec(line)?.slice(1));
  values.forEach((line, i) => expect([line, used[i]]).toEqual([line, expect.any(Array)]));
  expect(values).toHaveLength(
    lines.filter((line) => /^ *[\w-]+:( |$)/.test(line) && !line.endsWith(':')).length,
  );
  const tags = used.flatMap((match) => match?.[0] ?? []);
  const inHeader = lines
    .filter((line) => line.startsWith('# '))
    .flatMap((line) => line.match(/\[\w+\]/g) ?? []);
  for (const tag of tags) expect(declared).toContain(tag);
  // Every declaration is one mention; a source that no value has is cited elsewhere in the header.
  for (const tag of declared) {
    expect(tags.includes(tag) || inHeader.filter((mention) => mention === `[${tag}]`).length > 1).toBe(true);
  }
});

test.each(NAMES)('%s fits on an A6000 and on a card of 80 GB', async (name) => {
  const config = resolved(name);
  const model = await plannedModel(config.model);
  for (const card of ['A6000', 'H100']) {
    const device = { ...namedDevice(card, 'bfloat16'), ceilings: null };
    const { fits, memory } = planRun({ config, model, device });
    expect({ card, fits }).toEqual({ card, fits: true });
    expect(memory.kv!.slots).toBeGreaterThanOrEqual(8);
  }
});

test('acoer plan plans the largest batch, 2,048 completions', async () => {
  const words = ['plan', pathOf('thinkprune'), '--device-name', 'A6000', '--json'];
  const { code, stdout } = await acoer(...words);
  expect({ code, hours: (JSON.parse(stdout) as Plan).time!.hours.limit > 0 }).toEqual({
    code: 0,
    hours: true,
  });
});

const DEEPSCALER = { problem: '1 + 2?', answer: '3', solution: 'It is 4.' };
/** A row of each data set, with its columns as its card or the authors' script has them. */
const ROWS: Record<string, object> = {
  'arora-zanette': { source: 'amc_aime', problem: '1 + 2?', solution: 'So $\\boxed{3}$.', messages: [] },
  dler: DEEPSCALER,
  hapo: { question: '1 + 2?', level: '', type: '', solution: 'It is 4.', ground_truth: '3' },
  laser: DEEPSCALER,
  'shorter-better': DEEPSCALER,
  thinkprune: {
    data_source: 'numina_amc_aime',
    prompt: [
      { role: 'system', content: 'You are asked for actions.' },
      { role: 'user', content: '1 + 2?' },
    ],
    reward_model: { ground_truth: '3', style: 'rule' },
  },
};

test.each(NAMES)('%s: the columns of its data are found, and other sources left out', async (name) => {
  const config = resolved(name);
  const row = ROWS[name]!;
  const other = { ...row, source: 'orca_math', data_source: 'codecontests' };
  const rows = config.levels === null ? [row] : [row, other];
  const data = await loadDataset(trainSpec({ ...config, dataset: linesFile(rows) }));
  expect(data.size).toBe(1);
  expect(data.get(0)).toMatchObject({ question: '1 + 2?', gold: '3' });
});

/** What a test has no time for: the lengths, the number of prompts, the data and the evaluations. */
const SMALL: ConfigInput = {
  dataset: 'tiny',
  columns: {},
  levels: null,
  evalDataset: null,
  promptTemplate: '{problem}',
  maxPromptLength: null,
  promptsPerStep: 2,
  maxCompletionLength: 64,
  maxSteps: 5,
  evalSteps: 0,
  evalProblems: 2,
  evalMaxNewTokens: 32,
  saveSteps: 0,
  completionsSteps: 0,
  tensorboard: false,
};

/** The metrics of five steps with the settings of a file on another model. */
async function fiveSteps(name: string, model: string) {
  const out = join(root, `${name}-${model === 'tiny' ? 'embedded' : 'random'}`);
  const { preset: _, ...settings } = readConfigFile(pathOf(name));
  const run = await train({ ...settings, ...SMALL, model, preset: 'paper' }, { out });
  await run.result();
  const lines = readMetrics(join(out, 'metrics.jsonl'));
  expect(lines).toHaveLength(5);
  for (const line of lines) {
    expect(line.update_applied).toBe(1);
    expect(line.loss).toEqual(expect.any(Number));
    expect(line['sampling/sampling_logp_difference/max'] ?? 0).toBeLessThan(1e-4);
  }
  return lines;
}

test.each(NAMES)('%s runs for five steps on a random model', async (name) => {
  await fiveSteps(name, textModel(RANDOM));
});

test.each(NAMES)('%s: on a model that answers, its reward moves the weights', async (name) => {
  const lines = await fiveSteps(name, 'tiny');
  expect(Math.max(...lines.map((line) => line.grad_norm ?? 0))).toBeGreaterThan(0);
  expect(lines.some((line) => (line.reward_std ?? 0) > 0)).toBe(true);
});
