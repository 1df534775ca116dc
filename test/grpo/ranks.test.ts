/** Two ranks in lockstep in one process give the completions, rewards, weights and metrics of one rank. */
import { rmSync } from 'node:fs';
import type { ConfigInput } from '../../src/config';
import { AcoerError, errorCode, errorMessage } from '../../src/base/errors';
import type { LoopContext } from '../../src/grpo/context';
import { trainSteps } from '../../src/grpo/loop';
import type { LoopStep } from '../../src/grpo/step';
import { Ranks, shareOf, type ProcessGroup } from '../../src/ranks';
import { registerReward } from '../../src/rewards/registry';
import type { BoundReward } from '../../src/rewards/types';
import { FakeEngine, type FakeFaults, type FakePolicy } from '../helpers/fake-engine';
import { removeFakeRuns } from '../helpers/fake-run';
import { openFake } from '../helpers/opened-fake';
import { comparable, groupsInProcess } from '../helpers/ranks-in-process';

afterAll(removeFakeRuns);

interface RankOptions {
  faults?: FakeFaults;
  /** Replaces parts of what the loop is given. */
  change?: (loop: LoopContext) => Partial<LoopContext>;
  onStep?: (step: LoopStep) => void;
  signal?: AbortSignal;
}

/** Trains as the only process, or as one of `processes`. */
async function runRank(
  processes: ProcessGroup | undefined,
  more: ConfigInput,
  { faults = {}, change = () => ({}), onStep = () => undefined, signal }: RankOptions = {},
) {
  const engine = new FakeEngine(faults);
  const { out, loop: given, start } = await openFake(more, { engine, processes });
  const loop = { ...given, ...change(given) };
  const steps: LoopStep[] = [];
  for await (const step of trainSteps(loop, await start(loop), { signal })) {
    onStep(step);
    steps.push(step);
  }
  rmSync(out, { recursive: true });
  return { steps, theta: (loop.policy as FakePolicy).theta, engine };
}

const settings = { maxSteps: 4, promptsPerStep: 3, numGenerations: 4 };

test.each([
  ['on-policy', {}],
  ['prompts seen before, which are dealt by their lengths', { promptsPerStep: 12 }],
  ['several updates per batch, with a KL term', { numIterations: 2, beta: 0.04, maxSteps: 6 }],
  ['the tokens of highest entropy', { topEntropyQuantile: 0.4 }],
  ['the importance sampling correction', { importanceSamplingCorrection: 'token_truncate' as const }],
])('two ranks make the steps of one: %s', async (_, more) => {
  const one = await runRank(undefined, { ...settings, ...more });
  const two = await Promise.all(groupsInProcess(2).map((group) => runRank(group, { ...settings, ...more })));
  for (const { steps, theta } of two) {
    expect(steps).toHaveLength(one.steps.length);
    steps.forEach((step, i) => {
      const [found, expected] = [comparable(step), comparable(one.steps[i]!)];
      expect(found.map(([name]) => name)).toEqual(expected.map(([name]) => name));
      // Sums are taken in another order.
      found.forEach(([, value], j) => expect(value).toBeCloseTo(expected[j]![1]!, 10));
    });
    theta.forEach((value, j) => expect(value).toBeCloseTo(one.theta[j]!, 10));
    expect(theta).toEqual(two[0]!.theta);
  }
});

test('each rank samples and trains on its own share only', async () => {
  const two = await Promise.all(groupsInProcess(2).map((group) => runRank(group, settings)));
  const trained = two.map(({ engine }) =>
    engine.model!.policy!.passes.reduce((sum, { promptLengths }) => sum + promptLengths.length, 0),
  );
  const one = await runRank(undefined, settings);
  const all = one.engine.model!.policy!.passes.reduce((sum, pass) => sum + pass.promptLengths.length, 0);
  expect(trained[0]! + trained[1]!).toBe(all);
  expect(Math.min(...trained)).toBeGreaterThan(0);
});

test.each(['generate', 'score', 'accumulate'] as const)(
  'a number in %s that is not finite on one rank makes all ranks refuse the step',
  async (bad) => {
    const faulty: FakeFaults = { nonFinite: (call) => call === bad };
    const two = await Promise.all(
      groupsInProcess(2).map((group) =>
        runRank(group, { ...settings, maxSteps: 1, beta: 0.04 }, { faults: group.rank === 1 ? faulty : {} }),
      ),
    );
    const found = two.map(({ steps }) => steps[0]!.refusal?.found);
    expect(found[0]).toMatchObject({ phase: bad });
    expect(found[1]).toEqual(found[0]);
    for (const { theta } of two) expect(theta).toEqual([0, 0]);
  },
);

test('shares are contiguous and make up the whole', () => {
  const rows = Array.from({ length: 7 }, (_, i) => i);
  for (const size of [1, 2, 3, 8]) {
    const shares = Array.from({ length: size }, (_, rank) => shareOf({ rank, size }, rows));
    expect(shares.flat()).toEqual(rows);
    const lengths = shares.map(({ length }) => length);
    expect(Math.max(...lengths) - Math.min(...lengths)).toBeLessThanOrEqual(1);
  }
});

/** How each run ended, or that it still waits. */
const endings = (runs: readonly Promise<unknown>[]) =>
  Promise.all(
    runs.map(async (run) => {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<string>((resolve) => (timer = setTimeout(resolve, 4_000, 'still waiting')));
      const ended = run.then(
        () => 'finished',
        (error: unknown) => ({ code: errorCode(error), message: errorMessage(error) }),
      );
      try {
        return await Promise.race([ended, late]);
      } finally {
        clearTimeout(timer);
      }
    }),
  );

/** A change of the loop: its reward with some functions replaced. */
const withReward =
  (functions: Partial<BoundReward>) =>
  ({ rewards }: LoopContext): Partial<LoopContext> => ({
    rewards: rewards.map(({ reward, weight }) => ({ reward: { ...reward, ...functions }, weight })),
  });

const fails = () => {
  throw new TypeError('no such thing');
};

interface Failing extends RankOptions {
  settings?: ConfigInput;
  /** Default 1. */
  rank?: number;
  code: string;
  /** Where the other ranks say that it failed. */
  what: string;
}

const FAILING: [string, Failing][] = [
  ['sampling', { faults: { slots: 0 }, code: 'OUT_OF_MEMORY', what: 'sampling' }],
  [
    "the user's sampler",
    {
      change: () => ({ sampler: { sample: fails, follow: () => Promise.resolve() } }),
      code: 'SAMPLER_FAILED',
      what: 'sampling',
    },
  ],
  ['rewards', { change: withReward({ score: fails }), code: 'REWARD_FAILED', what: 'the rewards' }],
  [
    'the controller',
    { change: withReward({ observe: fails }), rank: 0, code: 'REWARD_FAILED', what: 'observing the batch' },
  ],
  [
    'a controller whose state cannot be sent',
    {
      change: withReward({ observe: () => fails }),
      rank: 0,
      code: 'REWARD_FAILED',
      what: 'observing the batch',
    },
  ],
  [
    'the log-probs',
    { settings: { beta: 0.04 }, faults: { scoringTokens: 1 }, code: 'OUT_OF_MEMORY', what: 'scoring' },
  ],
  [
    'the high-entropy tokens',
    {
      settings: { topEntropyQuantile: 0.4 },
      faults: { scoringTokens: 1 },
      code: 'OUT_OF_MEMORY',
      what: 'scoring entropies',
    },
  ],
  ['the update', { faults: { trainingTokens: 1 }, code: 'OUT_OF_MEMORY', what: 'training' }],
  [
    "the optimiser's step",
    { faults: { stepWithoutMemory: 0 }, code: 'OUT_OF_MEMORY', what: 'the optimiser' },
  ],
  [
    'the metrics, between two exchanges',
    {
      change: withReward({ metrics: fails }),
      code: 'REWARD_FAILED',
      what: 'the work between two exchanges',
    },
  ],
  [
    'its last step, after the last exchange',
    {
      settings: { maxSteps: 1 },
      change: ({ engine }) => ({ engine: { ...engine, memory: fails } }),
      code: 'INTERNAL',
      what: 'the work between two exchanges',
    },
  ],
];

test.each(FAILING)('no rank waits for one that fails in %s', async (_, failing) => {
  const { settings: more, rank = 1, code, what, ...options } = failing;
  const runs = groupsInProcess(2).map((group) =>
    runRank(group, { ...settings, ...more }, group.rank === rank ? options : {}),
  );
  const ended = await endings(runs);
  const own = ended[rank] as { code: string | undefined; message: string };
  expect(own.code ?? 'INTERNAL').toBe(code);
  expect(own.message).not.toMatch(/^Rank/);
  expect(ended[1 - rank]).toEqual({ code, message: `Rank ${rank} failed in ${what}: ${own.message}` });
});

test('a rank that is cancelled during a reward that never ends tells the others', async () => {
  const stop = new AbortController();
  const never = () => {
    setTimeout(() => stop.abort(new AcoerError('INTERRUPTED', 'Stopped.')), 20);
    return new Promise<never>(() => undefined);
  };
  const cancelled = { change: withReward({ score: never, keepsTime: true }), signal: stop.signal };
  const runs = groupsInProcess(2).map((group) => runRank(group, settings, group.rank === 1 ? cancelled : {}));
  const message = 'Rank 1 failed in the rewards: Stopped.';
  expect(await endings(runs)).toEqual([
    { code: 'INTERRUPTED', message },
    { code: 'INTERRUPTED', message: 'Stopped.' },
  ]);
});

test('a rank whose caller ends it between two steps tells the others', async () => {
  const onStep = () => {
    throw new AcoerError('WRITE_FAILED', 'The disk is full.');
  };
  const runs = groupsInProcess(2).map((group) =>
    runRank(group, settings, group.rank === 1 ? { onStep } : {}),
  );
  expect(await endings(runs)).toEqual([
    { code: 'INTERRUPTED', message: 'Rank 1 left the run before sampling.' },
    { code: 'WRITE_FAILED', message: 'The disk is full.' },
  ]);
});

test('ranks that are at different calls say so', async () => {
  const [first, second] = groupsInProcess(2).map((group) => new Ranks(group));
  const nothing = () => Promise.resolve();
  const ended = await endings([first!.gather('sampling', nothing), second!.gather('training', nothing)]);
  expect(ended).toEqual([
    { code: 'INTERNAL', message: 'Rank 1 is in training while rank 0 is in sampling.' },
    { code: 'INTERNAL', message: 'Rank 0 is in sampling while rank 1 is in training.' },
  ]);
});

test('ranks that all leave can go on together', async () => {
  const group = groupsInProcess(2).map((one) => new Ranks(one));
  await Promise.all(group.map((ranks) => ranks.leave()));
  const made = await Promise.all(group.map((ranks) => ranks.gather('sampling', async () => ranks.rank)));
  expect(made).toEqual([
    [0, 1],
    [0, 1],
  ]);
});

test('a reward is called once for each completion, and every rank has its values', async () => {
  let calls = 0;
  registerReward('random', () => {
    calls++;
    return Math.random();
  });
  const one = { ...settings, maxSteps: 1, reward: 'random' };
  const two = await Promise.all(groupsInProcess(2).map((group) => runRank(group, one)));
  expect(calls).toBe(12);
  const values = two.map(({ steps }) => steps[0]!.generated!.rewards.perFunction.random);
  expect(new Set(values[0]).size).toBe(12);
  expect(values[1]).toEqual(values[0]);
  expect(two[1]!.steps[0]!.metrics.reward).toBe(two[0]!.steps[0]!.metrics.reward);
});

test('the controller advances on the first rank, and every rank has its state', async () => {
  let calls = 0;
  const change = withReward({ observe: () => ({ calls: ++calls, random: Math.random() }) });
  const runs = groupsInProcess(2).map((group) => runRank(group, { ...settings, reward: 'acc' }, { change }));
  const states = (await Promise.all(runs)).map(({ steps }) =>
    steps.map(({ position }) => position.loop.rewardStates.acc),
  );
  expect(calls).toBe(settings.maxSteps);
  expect(states[0]![3]).toMatchObject({ calls: 4 });
  expect(states[1]).toEqual(states[0]);
});

test('a limit that one rank has learnt holds on all', async () => {
  const [first, second] = await Promise.all(
    groupsInProcess(2).map((group) =>
      runRank(
        group,
        { ...settings, maxSteps: 1, microBatchTokens: 512 },
        { faults: group.rank === 1 ? { trainingTokens: 100 } : {} },
      ),
    ),
  );
  const learnt = first!.steps[0]!.position.loop.memory;
  expect(learnt.microBatchTokens).toBeLessThanOrEqual(100);
  expect(second!.steps[0]!.position.loop.memory).toEqual(learnt);
});
