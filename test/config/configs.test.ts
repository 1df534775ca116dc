/** Every file in configs/ is a complete, valid run. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { PRESETS, readConfigFile, type ConfigInput } from '../../src/config';
import { trainSpec, evalSpec, KNOWN_DATASETS } from '../../src/data';
import { balanceOf, holdOf, runLab } from '../../src/lab';
import { closeRewards, openRewards, resolveTrainConfig } from '../../src/train/inputs';

const FOLDER = join(__dirname, '..', '..', 'configs');
/** Without sweeps and the runs of other papers, which have tests of their own. */
const files = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).filter(
  (name) =>
    name.endsWith('.yaml') &&
    !name.endsWith('-sweep.yaml') &&
    !name.startsWith('field') &&
    name !== join('real', 'sft.yaml'),
);
const resolved = (file: string) => resolveTrainConfig([readConfigFile(join(FOLDER, file))]);

/** One configuration per reward in the paper's table 7, including the two it names without a formula. */
const TABLE7 = [
  'acc',
  'beta0',
  'beta0.01',
  'beta0.05',
  'beta0.10',
  'grpo-lp',
  'grpo-lead',
  'recut',
  'acoer',
  'binary',
  'acoer-fixed',
];

/** One configuration per reward of the study on a real model; its warm start is a run of `acoer sft`. */
const REAL = ['acc', 'beta0', 'beta0.05', 'grpo-lp', 'acoer', 'acoer-held'];

/** The paper's training and evaluation settings, as it states them. */
const PAPER = {
  model: 'Qwen/Qwen3-1.7B',
  loraRank: 16,
  loraAlpha: 32,
  learningRate: 5e-6,
  adamBeta1: 0.9,
  adamBeta2: 0.999,
  numGenerations: 16,
  temperature: 1,
  maxCompletionLength: 8192,
  promptsPerStep: 1,
  maxSteps: 1200,
  evalMaxNewTokens: 16384,
  evalSteps: 200,
  enableThinking: true,
};

test('the folder contains the expected runs', () => {
  const table = TABLE7.map((name) => join('table7', `${name}.yaml`));
  const real = REAL.map((name) => join('real', `${name}.yaml`));
  expect(files.sort()).toEqual(
    [
      'acoer-held.yaml',
      'authors-code.yaml',
      'paper.yaml',
      'slide.yaml',
      'tiny.yaml',
      ...table,
      ...real,
    ].sort(),
  );
});

test.each(files)('%s: its settings, rewards and data are valid', async (file) => {
  const config = resolved(file);
  const rewards = await openRewards(config);
  await closeRewards(rewards);
  for (const { name } of [trainSpec(config), evalSpec(config)]) {
    if (file.startsWith('real')) expect(name).toMatch(/^\.cache\/real\/task\/\w+\.jsonl$/);
    else
      for (const part of name.split(' + ')) expect(['tiny', ...Object.keys(KNOWN_DATASETS)]).toContain(part);
  }
});

test.each(TABLE7)('table7/%s is the paper run with that reward', async (name) => {
  const config = resolved(join('table7', `${name}.yaml`));
  expect(config).toMatchObject({ ...PAPER, warmupRatio: 0.1, weightDecay: 0.01, reward: name });
  const paper = resolved('paper.yaml');
  expect({ ...config, reward: null, rewardParams: null }).toEqual({
    ...paper,
    reward: null,
    rewardParams: null,
  });
});

test.each(REAL)(
  'real/%s differs from the others in its reward alone, and acoer-held in epsilon',
  async (name) => {
    const own = (file: string) => ({ ...resolved(join('real', `${file}.yaml`)), rewardParams: null });
    const change = name === 'acoer-held' ? { reward: 'acoer', advantageEpsilon: 0.1 } : { reward: name };
    expect(own(name)).toEqual({ ...own('acc'), ...change });
  },
);

/** The settings of a file that differ from the defaults and its preset. */
function beyondPreset(file: string, preset: string): ConfigInput {
  const written = resolved(file);
  const base = resolveTrainConfig([{ model: 'Qwen/Qwen3-1.7B' }], preset);
  return Object.fromEntries(
    Object.entries(written).filter(
      ([key, value]) => JSON.stringify(value) !== JSON.stringify(base[key as keyof typeof base]),
    ),
  );
}

test('paper.yaml states the defaults and where the data is', () => {
  expect(beyondPreset('paper.yaml', 'paper')).toEqual({
    dataset: 'numinamath-tir',
    evalDataset: 'math500',
    rewardParams: expect.anything(),
  });
  expect(PRESETS.paper?.values).toEqual({});
});

test("acoer-held.yaml is the paper's run with an epsilon near the spread that the largest alpha gives correct answers", async () => {
  const held = resolved('acoer-held.yaml');
  expect(held).toEqual({ ...resolved('paper.yaml'), advantageEpsilon: 0.1 });
  const { rewards } = await runLab({ rewards: ['acoer'], state: { budget: 3400 } });
  const of = (alpha: number) => rewards[0]!.lengthWeights.find((weight) => weight.alpha === alpha)!;
  const epsilons = { held: held.advantageEpsilon, trl: 1e-4 };
  const hold = (alpha: number, epsilon: number) => holdOf(of(alpha).allCorrect, { scale: 'group', epsilon });
  const balance = (alpha: number, epsilon: number) => balanceOf(of(alpha), { scale: 'group', epsilon });
  // The figures in the file's comment, rounded as there.
  expect(of(0.02).allCorrect.std.toFixed(4)).toBe('0.0047');
  expect(of(0.5).allCorrect.std.toFixed(3)).toBe('0.116');
  expect(hold(0.5, epsilons.held).toFixed(1)).toBe('0.5');
  expect(hold(0.02, epsilons.held).toFixed(2)).toBe('0.96');
  expect(hold(0.02, epsilons.trl).toFixed(2)).toBe('0.02');
  expect(balance(0.02, epsilons.held).toFixed(2)).toBe('0.05');
  expect(balance(0.02, epsilons.trl).toFixed(2)).toBe('0.98');
});

test("authors-code.yaml has the settings of the authors' code that the paper lacks", () => {
  expect(beyondPreset('authors-code.yaml', 'authors-code')).toEqual({
    evalDataset: 'math500',
    rewardParams: expect.anything(),
  });
  expect(resolved('authors-code.yaml')).toMatchObject({
    ...PAPER,
    dataset: 'math + gsm8k',
    beta: 0.001,
    loraDropout: 0.05,
    warmupRatio: 0.05,
    weightDecay: 0,
    maxGradNorm: 1,
    lossType: 'dapo',
    answerFrom: 'last-box',
    dropUnparsedGold: false,
    rewardParams: { acoer: { lengthUnit: 'chars', initialBudget: 4096 } },
  });
});

test("the controller parameters in the files are the reward's own defaults", async () => {
  const written = await openRewards(resolved('paper.yaml'));
  const defaults = await openRewards(resolveTrainConfig([{ model: 'Qwen/Qwen3-1.7B', reward: 'acoer' }]));
  const stateOf = ([entry]: typeof written) => entry!.reward.initialState({ maxLength: 8192 });
  expect(stateOf(written)).toEqual(stateOf(defaults));
});
