import {
  LAB_DEFAULTS,
  runLab,
  type LabReport,
  type RecordedCompletion,
  type RewardReport,
} from '../../src/lab';
import { listRewards, registerReward, resolveReward } from '../../src/rewards/registry';
import { recordedBatches } from '../../src/lab/recorded';

const only = async (name: string, options: Parameters<typeof runLab>[0] = {}): Promise<RewardReport> =>
  (await runLab({ ...options, rewards: [name] })).rewards[0]!;

let all: LabReport;
beforeAll(async () => {
  all = await runLab();
});
const report = (name: string): RewardReport => all.rewards.find((reward) => reward.name === name)!;

describe('Proposition 1', () => {
  test('without epsilon |A| of two answers is 1/sqrt(2), 1 by the population std, at any distance', () => {
    for (const { difference, advantageNoEpsilon, slopeNoEpsilon } of report('grpo-lp').pairs.incorrect) {
      expect(advantageNoEpsilon).toBeCloseTo(Math.SQRT1_2, 9);
      // The population std of two values is 1/sqrt(2) of the sample's.
      expect(advantageNoEpsilon * Math.SQRT2).toBeCloseTo(1, 9);
      // What grows without bound is the advantage per token.
      expect(slopeNoEpsilon).toBeCloseTo(-Math.SQRT2 / difference, 9);
    }
  });

  test('with beta = 0 incorrect answers get advantages of exactly 0', () => {
    for (const name of ['acc', 'beta0', 'acoer']) {
      expect(
        report(name).pairs.incorrect.every(({ advantage, slope }) => advantage === 0 && slope === 0),
      ).toBe(true);
      expect(
        report(name).sweeps.allIncorrect.points.every(({ incorrect }) => incorrect!.largestAdvantage === 0),
      ).toBe(true);
    }
  });

  test('among answers of one class the slope grows as 1/spread, and |A| stays under (G - 1)/sqrt(G)', () => {
    for (const name of ['grpo-lp', 'beta0.01', 'beta0.05', 'beta0.10', 'recut']) {
      const { allIncorrect, allCorrect } = report(name).sweeps;
      // Exponential and inverse rewards are linear only in the limit.
      expect(allIncorrect.order.incorrect).toBeCloseTo(1, 2);
      expect(allCorrect.order.correct).toBeCloseTo(1, 2);
      for (const { incorrect } of allIncorrect.points) {
        expect(incorrect!.largestAdvantage).toBeLessThanOrEqual(15 / 4);
      }
    }
  });

  test('epsilon stops the growth', async () => {
    const slopes = async (epsilon: number) =>
      (await only('beta0.01', { epsilon })).sweeps.allIncorrect.points.map(
        ({ incorrect }) => incorrect!.advantageSlope,
      );
    const growth = (values: number[]) => values.at(-1)! / values[0]!;
    expect(growth(await slopes(0))).toBeCloseTo(256, 1);
    expect(growth(await slopes(1e-4))).toBeLessThan(20);
  });
});

test('with equal lengths the slope is infinite without epsilon, |dr/dl| (1 - 1/G) / epsilon with it', async () => {
  const synthetic = { incorrect: { mean: 5000, std: 0 } };
  const first = async (epsilon: number) =>
    (await only('grpo-lp', { synthetic, epsilon })).sweeps.allIncorrect.points[0]!.incorrect!.advantageSlope;
  expect(await first(0)).toBe(-Infinity);
  expect(await first(1e-4)).toBeCloseTo(((-0.3 / 8192) * (15 / 16)) / 1e-4, 4);
  expect((await only('grpo-lp', { synthetic })).prediction.reason).toContain('of equal length here');
});

describe('section 4.2: mixed groups', () => {
  test('the pressure does not change as lengths converge', () => {
    for (const name of ['grpo-lp', 'beta0.10', 'beta0']) {
      expect(Math.abs(report(name).sweeps.mixed.order.correct!)).toBeLessThan(1e-3);
    }
  });

  test("the paper's -beta/C is exact up to the answer's own share in mean and std", () => {
    const { C, approximate, exact } = report('grpo-lp').mixedPressure!;
    const p = 11 / 16;
    expect(C).toBeCloseTo(Math.sqrt(p * (1 - p)), 12);
    expect(approximate).toBeCloseTo(-0.3 / 8192 / C, 12);
    // dA/dr = (1 - 1/n)/s - (r - mean)^2/((n - 1) s^3) for 0/1 rewards, s their sample std.
    const s = C * Math.sqrt(16 / 15);
    const shares = 15 / 16 / s - p ** 2 / (15 * s ** 3);
    // The rewards are 0/1 apart from the penalty itself.
    expect(exact / ((-0.3 / 8192) * shares)).toBeCloseTo(1, 1);
  });
});

describe('predictions', () => {
  test.each([
    ['acc', [], false],
    ['binary', [], false],
    ['laser', [], false],
    ['beta0', [2], false],
    ['acoer-fixed', [2], false],
    ['grpo-lead', [2], false],
    ['acoer', [2], true],
    ['beta0.01', [1, 2], false],
    ['beta0.05', [1, 2], false],
    ['beta0.10', [1, 2], false],
    ['grpo-lp', [1, 2], false],
    ['recut', [1, 2], false],
    ['a-dlp', [1, 2], true],
    ['short-rl', [2], true],
  ] as const)('%s opens %j', (name, pathways, guarded) => {
    expect(report(name).prediction).toMatchObject({ pathways, guarded });
  });

  test('the reason is one sentence', () => {
    for (const { prediction } of all.rewards) expect(prediction.reason).toMatch(/^[A-Z][^\n]*[^.]\.$/);
  });

  test('a step function is immune, and the reason says so', () => {
    const { signals, curves, prediction } = report('binary');
    expect(signals.correct.form).toBe('steps');
    expect(signals.incorrect.form).toBe('steps');
    expect(new Set(curves.correct.rewardSlope)).toEqual(new Set([0]));
    expect(prediction.reason).toContain('steps only');
  });

  test('a reward that needs history is judged by its settled state', () => {
    const { signals, settledSignals, prediction } = report('hapo');
    expect(signals.correct.active).toBe(false);
    expect(settledSignals.correct.active).toBe(true);
    expect(prediction.pathways).toEqual([1, 2]);
    expect(prediction.reason).toContain('once the state has seen such groups');
  });

  test("the taxonomy's directions match the measured ones", () => {
    for (const { name, taxonomy } of listRewards()) {
      if (taxonomy === undefined) continue;
      for (const kind of ['correct', 'incorrect'] as const) {
        const { signals, sweeps } = report(name);
        const mixed = sweeps.mixed.points[0]![kind]!;
        if (!signals[kind].active || mixed.activeShare === 0 || taxonomy[kind] === 'target') continue;
        const measured = mixed.longerShare === 0 ? 'shorter' : mixed.shorterShare === 0 ? 'longer' : 'both';
        expect([name, kind, measured]).toEqual([name, kind, taxonomy[kind]]);
      }
    }
  });
});

describe('any registered reward', () => {
  test("a user's asynchronous function", async () => {
    registerReward('lab-mine', async (rollout) => (rollout.correct ? 1 - rollout.thinkingTokens / 8192 : 0));
    const { prediction, sweeps } = await only('lab-mine');
    expect(prediction.pathways).toEqual([2]);
    expect(sweeps.mixed.points[0]!.correct!.rewardSlope).toBeCloseTo(-1 / 8192, 12);
  });

  test('a failure names the reward and the answer', async () => {
    registerReward('lab-broken', () => NaN);
    await expect(only('lab-broken')).rejects.toMatchObject({ code: 'REWARD_FAILED' });
    await expect(only('lab-broken')).rejects.toThrow(/lab-broken.*sample 0/);
  });

  test('is closed at the end, even after a failure', async () => {
    let closed = 0;
    const bind = () => ({ ...resolveReward('acc'), name: 'lab-closing', close: async () => void closed++ });
    const words = { name: 'lab-closing', summary: '', formula: '', source: '', defaults: {} };
    registerReward('lab-closing', { ...words, bind });
    await only('lab-closing');
    await expect(runLab({ rewards: ['lab-closing', 'lab-broken'] })).rejects.toThrow();
    expect(closed).toBe(2);
  });
});

describe('settings', () => {
  test('the same seed gives the same report, another seed a different one', async () => {
    const again = await runLab({ rewards: ['acc'] });
    expect(again.rewards[0]).toEqual(report('acc'));
    const other = await runLab({ rewards: ['acc'], synthetic: { seed: 7 } });
    expect(other.rewards[0]!.answers).not.toEqual(report('acc').answers);
  });

  test('accuracy, group size and lengths', async () => {
    const given = { accuracy: 0.25, groupSize: 8, correct: { mean: 900, std: 0 }, answerTokens: 50 };
    const { answers } = await only('grpo-lp', { synthetic: given, maxLength: 6000 });
    expect(answers.filter(({ correct }) => correct)).toHaveLength(2);
    expect(answers).toHaveLength(8);
    expect(answers[0]).toMatchObject({ thinkingTokens: 900, totalTokens: 950 });
    expect(answers[0]!.reward).toBeCloseTo(2 - (0.3 * 900) / 6000, 12);
  });

  test('a given state scales the pressure', async () => {
    const strong = await only('acoer', { state: { alpha: 0.4 } });
    const weak = await only('acoer');
    const slope = ({ sweeps }: RewardReport) => sweeps.mixed.points[0]!.correct!.rewardSlope;
    expect(slope(strong) / slope(weak)).toBeCloseTo(20, 6);
  });

  test('a parameter is passed to the rewards that have it', async () => {
    const { rewards } = await runLab({ rewards: ['acc', 'grpo-lp'], params: { alpha: 0.6 } });
    const slope = (reward: RewardReport) => reward.sweeps.mixed.points[0]!.incorrect!.rewardSlope;
    expect(slope(rewards[1]!)).toBeCloseTo(-0.6 / 8192, 12);
    expect(slope(rewards[0]!)).toBe(0);
  });

  test('a parameter may be set for one reward only', async () => {
    const params = { alpha: 0.6 };
    const rewardParams = { 'beta0.10': { alpha: 0.1 } };
    const { rewards } = await runLab({ rewards: ['beta0.10', 'grpo-lp'], params, rewardParams });
    const slope = (reward: RewardReport) => reward.sweeps.mixed.points[0]!.correct!.rewardSlope;
    expect(slope(rewards[0]!)).toBeCloseTo(-0.1 / 8192, 12);
    expect(slope(rewards[1]!)).toBeCloseTo(-0.6 / 8192, 12);
  });

  test.each([
    [
      { rewards: ['acc'], rewardParams: { acoer: {} } },
      /rewardParams.acoer: that reward is not among the chosen ones/,
    ],
    [{ rewards: ['acoer'], rewardParams: { acoer: 5 } }, /rewardParams.acoer must hold parameters, not 5/],
    [{ rewardModules: { acc: './x.js' } }, /rewardModules.acc is built in/],
    [{ rewardModules: { mine: 5 } }, /rewardModules.mine must name a JavaScript file/],
    [{ rewards: ['acoerr'] }, /Unknown reward "acoerr"; did you mean `acoer`/],
    [{ rewards: [] }, /No reward was named/],
    [{ rewards: ['acoer'], params: { alfa: 1 } }, /None of these rewards has the parameter alfa/],
    [{ rewards: ['grpo-lp'], params: { alpha: -1 } }, /alpha.*at least 0/],
    [{ rewards: ['acoer'], state: { budgets: 1 } }, /state value budgets; did you mean `budget`/],
    [{ rewards: ['acc'], state: { budget: 1 } }, /state value budget \(there is none\)/],
    [{ rewards: ['acoer'], state: { budget: 'big' } }, /budget must be of kind number, not "big"/],
    [{ rewards: ['acc'], synthetic: { correct: { mean: 9e6, std: 1 } } }, /are almost never between/],
    [{ rewards: ['acc'], completions: [] }, /no recorded completions/],
  ] as [object, RegExp][])('refuses %j', async (options, message) => {
    await expect(runLab(options)).rejects.toThrow(message);
  });
});

function completion(
  step: number,
  group: string,
  correct: boolean,
  thinkingTokens: number,
): RecordedCompletion {
  const totalTokens = thinkingTokens + 20;
  return { step, group, correct, thinkingTokens, totalTokens, format: true, thinkingClosed: true };
}

/**
 * Two groups of four per step: a mixed one, and one that is all correct on even steps and all wrong on odd
 * ones.
 */
const recording = (steps: number): RecordedCompletion[] =>
  Array.from({ length: steps }, (_, step) => [
    ...[300, 320, 410, 460].map((l, i) => completion(step, 'a', i < 2, l + step)),
    ...[210, 280, 330, 450].map((l) => completion(step, 'b', step % 2 === 0, l + step)),
  ]).flat();

describe('recorded rollouts', () => {
  const maxLength = 512;

  test('are scored group by group', async () => {
    const { recorded, rewards } = await runLab({
      completions: recording(4),
      maxLength,
      rewards: ['grpo-lp'],
    });
    expect(recorded).toEqual({
      steps: 4,
      groups: 8,
      answers: 32,
      shares: { mixed: 0.5, allIncorrect: 0.25, allCorrect: 0.25 },
    });
    const own = rewards[0]!.recorded!;
    expect(own.answers[0]).toMatchObject({ step: 0, group: 'a', thinkingTokens: 300 });
    expect(own.answers[0]!.reward).toBeCloseTo(2 - (0.3 * 300) / 512, 12);
    expect(own.fracZeroStd).toBe(0);
    expect(own.advantageSlope.mixed.incorrect).toBeLessThan(0);
    expect(own.advantageSlope.allCorrect.incorrect).toBeNull();
  });

  test('by default every step sees the same state; with observe the state advances over the steps', async () => {
    const completions = recording(30);
    const params = { warmupSteps: 5, checkWindow: 5 };
    const options = { completions, maxLength, params };
    const still = await only('acoer', options);
    const moved = await only('acoer', { ...options, observe: true });
    const reward = resolveReward('acoer', params);
    let state = reward.initialState({ maxLength });
    expect(still.state).toEqual(state);
    for (const { step, groups } of recordedBatches(completions, { maxLength })) {
      state = await reward.observe(state, { step, maxLength, batch: groups });
    }
    expect(moved.state).toEqual(state);
    expect(moved.state).not.toEqual(still.state);
    expect(moved.recorded!.answers[0]).toEqual(still.recorded!.answers[0]);
    expect(moved.recorded!.answers.at(-8)!.reward).not.toBe(still.recorded!.answers.at(-8)!.reward);
  });

  test('groups of different sources are kept apart', () => {
    const from = (source: string) => recording(2).map((row) => ({ ...row, source }));
    const batches = recordedBatches([...from('x'), ...from('y')], { maxLength });
    expect(batches.map(({ step }) => step)).toEqual([0, 0, 1, 1]);
    expect(batches.every(({ groups }) => groups.every(({ rollouts }) => rollouts.length === 4))).toBe(true);
  });

  test('a class that was never recorded uses the lengths of the other', async () => {
    const completions = recording(2).map((row) => ({ ...row, correct: true }));
    const { lengths, accuracy } = await runLab({ completions, maxLength, rewards: ['acc'] });
    expect(accuracy).toBe(1);
    expect(lengths.incorrect).toEqual(lengths.correct);
  });

  test('advantages scaled by the batch come from all its groups', async () => {
    const completions = recording(1);
    const { rewards } = await runLab({
      completions,
      maxLength,
      rewards: ['acc'],
      scale: 'batch',
      formatWeight: 0,
    });
    // Six of eight correct: sample std sqrt(8/7 * 3/16); the group's mean is 1/2.
    const std = Math.sqrt(((8 / 7) * 3) / 16);
    expect(rewards[0]!.recorded!.answers[0]!.advantage).toBeCloseTo(0.5 / (std + LAB_DEFAULTS.epsilon), 9);
  });

  test.each([
    ['one completion', [completion(0, 'a', true, 5)], {}, /Group a of step 0 has one completion/],
    [
      'a completion over the limit',
      [completion(3, 'a', true, 600)],
      {},
      /620 tokens \(step 3, group a\).*512/,
    ],
    [
      'several runs to follow',
      recording(2).flatMap((row) => [
        { ...row, source: 'x' },
        { ...row, source: 'y' },
      ]),
      { observe: true },
      /one run, not of 2/,
    ],
    [
      'groups of different sizes scaled by the batch',
      recording(1).slice(0, 7),
      { scale: 'batch' as const },
      /differ in size/,
    ],
  ])('refuses %s', async (_, completions, options, message) => {
    await expect(runLab({ rewards: ['acc'], completions, maxLength, ...options })).rejects.toThrow(message);
  });
});
