/** sweep.yaml and the runs that it means. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfigFile } from '../../src/config';
import { listRewards } from '../../src/rewards';
import { metricOf, readSweepFile, sweepRuns } from '../../src/sweep';
import { resolveTrainConfig } from '../../src/train/inputs';
import { ROOT } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-sweep-file-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function sweepOf(text: string, name = 'mine.yaml') {
  const path = join(folder, name);
  writeFileSync(path, text);
  const file = readSweepFile(path);
  return { file, runs: sweepRuns(file) };
}

const refusal = (text: string): string => {
  try {
    sweepOf(text);
  } catch (error) {
    return (error as Error).message.replaceAll(folder, 'FOLDER');
  }
  throw new Error('it was not refused');
};

test('a list of runs over a base, with seeds outermost', () => {
  const { file, runs } = sweepOf(`
base: { preset: tiny, maxSteps: 4 }
runs:
  - { name: acc, set: { reward: acc } }
  - { name: acoer }
grid: { learningRate: [1e-3, 2e-3], seed: [1, 2] }
`);
  expect(file).toMatchObject({ name: 'mine', parallel: 'auto', maxFailures: null });
  expect(runs.map((run) => run.folder)).toEqual(
    [1, 2].flatMap((seed) =>
      ['acc', 'acoer'].flatMap((name) =>
        ['0.001', '0.002'].map((rate) => `runs/${name}-learningRate=${rate}-s${seed}`),
      ),
    ),
  );
  expect(runs[1]).toMatchObject({
    method: 'acc learningRate=0.002',
    seed: 1,
    point: { learningRate: 0.002 },
    settings: { preset: 'tiny', maxSteps: 4, reward: 'acc', learningRate: 0.002, seed: 1 },
    config: { maxSteps: 4, reward: 'acc', learningRate: 0.002, seed: 1, promptsPerStep: 8 },
  });
  expect(new Set(runs.map(({ hash }) => hash)).size).toBe(8);
});

test('without runs and grid it is one run; the seed is that of the settings', () => {
  const { runs } = sweepOf('base: { preset: tiny, seed: 7 }');
  expect(runs.map((run) => [run.folder, run.seed])).toEqual([['runs/run-s7', 7]]);
});

test('paths are relative to the file, those of modules in its settings as well', () => {
  mkdirSync(join(folder, 'configs'), { recursive: true });
  writeFileSync(
    join(folder, 'configs', 'base.yaml'),
    'preset: tiny\nrewardModules: { own: ./own.mjs }\nreward: own\n',
  );
  writeFileSync(join(folder, 'configs', 'acc.yaml'), 'reward: acc\nmaxSteps: 9\n');
  const { runs } = sweepOf(`
base: configs/base.yaml
runs:
  - { name: own }
  - { name: acc, config: configs/acc.yaml }
  - { name: other, set: { rewardModules: { other: other.mjs }, reward: other } }
`);
  expect(runs.map(({ config }) => [config.reward, config.maxSteps])).toEqual([
    ['own', 200],
    ['acc', 9],
    ['other', 200],
  ]);
  expect(runs[2]!.settings['rewardModules']).toEqual({
    own: join(folder, 'configs', 'own.mjs'),
    other: join(folder, 'other.mjs'),
  });
});

test('with overlay only those settings are taken from the files of runs', () => {
  writeFileSync(
    join(folder, 'far.yaml'),
    'preset: paper\nmodel: Qwen/Qwen3-1.7B\nreward: beta0\nbeta: 0.5\n',
  );
  const { file, runs } = sweepOf(`
base: { preset: tiny }
overlay: [reward, beta]
runs: [{ name: far, config: far.yaml, set: { maxSteps: 3 } }]
`);
  expect(file.overlay).toEqual(['reward', 'beta']);
  expect(runs[0]!.config).toMatchObject({ model: 'tiny', reward: 'beta0', beta: 0.5, maxSteps: 3 });
});

test('dotted paths reach into settings that are maps', () => {
  const { runs } = sweepOf('base: { preset: tiny }\ngrid: { rewardParams.acoer.alphaInit: [0.05, 0.1] }');
  const params: unknown[] = runs.map(({ config }) => config.rewardParams['acoer']);
  expect(params).toEqual([
    expect.objectContaining({ alphaInit: 0.05, warmupSteps: 20 }),
    expect.objectContaining({ alphaInit: 0.1, warmupSteps: 20 }),
  ]);
});

test.each([
  ['base: { preset: tiny }\nnme: x', 'FOLDER/mine.yaml: nme: there is no such entry; did you mean `name`?'],
  ['runs: [{ name: a }]', /base: must be the path of a configuration, or settings/],
  ['base: missing.yaml', /base: Cannot read the configuration FOLDER\/missing\.yaml: no such file/],
  ['base: { preset: tiny }\nruns: [{ name: ../a }]', /runs\.0\.name: must be a folder name of letters/],
  [
    'base: { preset: tiny }\nruns: [{ name: a }, { name: a }]',
    /runs\.1\.name: `a` is the name of another run/,
  ],
  [
    'base: { preset: tiny }\nruns: [{ name: a }, { name: b }]',
    /runs\/b-s42: is the same run, by its settings, as runs\/a-s42/,
  ],
  ['base: { preset: tiny }\ngrid: { seed: [1, 1] }', /runs\/run-s1: has the same name as runs\/run-s1/],
  ['base: { preset: tiny, maxStps: 1 }', /run run: maxStps: unknown setting; did you mean `maxSteps`\?/],
  ['base: { preset: tiny }\ngrid: { seed: [one] }', /seed: must be a number, not "one"/],
  [
    'base: { preset: tiny }\ngrid: { learningRat: [1] }',
    /learningRat: unknown setting; did you mean `learningRate`\?/,
  ],
  ['base: { preset: tiny }\ngrid: { seed: [] }', /grid\.seed: must have at least 1 entry/],
  ['base: { preset: tiny }\noverlay: [reward]', /overlay: goes with a run that has a `config`/],
  [
    'base: { preset: tiny }\noverlay: [rewad]',
    /overlay: there is no setting `rewad`; did you mean `reward`\?/,
  ],
  ['base: { preset: tiny }\nparallel: 0', /parallel: must be (at least 1|auto)/],
  ['base: { preset: tiny }\nparallel: many', /parallel: must be auto or a whole number from 1 on/],
  [
    'base: { preset: tiny, rewardParams: { acoer: { alfaInit: 1 } } }',
    /alfaInit: unknown setting; did you mean `alphaInit`\?/,
  ],
  ['base: { preset: tiny, notify: "https://example.org/x" }', /give it in ACOER_NOTIFY/],
  [
    'base: { preset: tiny }\nruns: [{ name: a, set: { evalSteps: 5 } }, { name: b, set: { reward: acc } }]',
    /evalSteps: must be the same in all runs, and is 5 in a and 0 in b/,
  ],
])('%j is refused', (text, sentence) => {
  if (typeof sentence === 'string') expect(refusal(text)).toBe(sentence);
  else expect(refusal(text)).toMatch(sentence);
});

test('everything that is wrong is one error, said once for all runs', () => {
  const message = refusal(`
base: { preset: tiny, maxStps: 4 }
runs: [{ name: a, set: { reward: acor } }, { name: b, set: { reward: acc } }]
grid: { seed: [1, 2] }
`);
  expect(message.split('\n')).toEqual([
    'FOLDER/mine.yaml, 2 problems:',
    '  run a and 1 more: reward: there is no reward "acor"; did you mean `acoer`?',
    '  run a and 3 more: maxStps: unknown setting; did you mean `maxSteps`?',
  ]);
});

test('the metric is the sampled evaluation where there is one, and must exist', () => {
  const metric = (text: string) => {
    const { file, runs } = sweepOf(text);
    return metricOf(file, runs);
  };
  expect(metric('base: { preset: tiny }')).toBe('sampled');
  expect(metric('base: { preset: tiny, evalSampledProblems: 0 }')).toBe('greedy');
  expect(metric('base: { preset: tiny }\nevaluation: { kind: greedy }')).toBe('greedy');
  expect(() =>
    metric('base: { preset: tiny, evalSampledProblems: 0 }\nevaluation: { kind: sampled }'),
  ).toThrow(/the runs have no sampled evaluation, so nothing can be compared; set evalSampledProblems/);
});

test.each(['tiny-sweep', 'paper-sweep'])(
  "configs/%s.yaml has the paper's eleven rewards, three seeds each",
  (name) => {
    const runs = sweepRuns(readSweepFile(join(ROOT, 'configs', `${name}.yaml`)));
    expect(runs).toHaveLength(33);
    const rewards = new Set(runs.map(({ config }) => config.reward));
    expect(rewards.size).toBe(11);
    expect(new Set(runs.slice(0, 11).map(({ seed }) => seed)).size).toBe(1);
  },
);

test('configs/tiny-crossed-sweep.yaml crosses six rewards with two epsilons and two schedules', () => {
  const runs = sweepRuns(readSweepFile(join(ROOT, 'configs', 'tiny-crossed-sweep.yaml')));
  expect(runs).toHaveLength(6 * 2 * 2 * 3);
  const theory = runs.filter(({ name }) => name === 'beta0.05-theory');
  expect(theory).toHaveLength(12);
  for (const { config } of theory)
    expect(config.rewardParams['beta0.05']).toEqual({ wrongPenaltySign: 'theory' });
});

test('configs/smollm2-sweep.yaml has the runs of configs/real', () => {
  const runs = sweepRuns(readSweepFile(join(ROOT, 'configs', 'smollm2-sweep.yaml')));
  expect(runs).toHaveLength(7);
  for (const { name, config } of runs) {
    const inFlight = name === 'acoer-in-flight' ? [{ groupsInFlight: 12, maxSlots: 96 }] : [];
    const file = join(ROOT, 'configs', 'real', `${name.replace('-in-flight', '')}.yaml`);
    const alone = resolveTrainConfig([readConfigFile(file), ...inFlight]);
    expect(config).toEqual(alone);
  }
});

test("configs/tiny-sweep.yaml leaves out rewardParams: those of the paper's files are the defaults", () => {
  const runs = sweepRuns(readSweepFile(join(ROOT, 'configs', 'paper-sweep.yaml')));
  for (const { config } of runs.slice(0, 11)) {
    const { name, defaults } = listRewards().find((reward) => reward.name === config.reward)!;
    expect({ name, ...defaults }).toMatchObject({ name, ...config.rewardParams[name] });
  }
});
