/** Two ranks in lockstep in one process give the completions, rewards, weights and metrics of one rank. */
import { rmSync } from 'node:fs';
import type { ConfigInput } from '../../src/config';
import { trainSteps } from '../../src/grpo/loop';
import type { LoopStep } from '../../src/grpo/step';
import { NO_WATCH } from '../../src/grpo/watch';
import { ONE_RANK, shareOf, type Ranks } from '../../src/ranks';
import { openNew } from '../../src/train/opening';
import { openModel } from '../../src/train/opened';
import { startState } from '../../src/train/start';
import { FakeEngine, type FakeFaults, type FakePolicy, type Theta } from '../helpers/fake-engine';
import { fakeRun, removeFakeRuns } from '../helpers/fake-run';
import type { Watchdog } from '../../src/train/watchdog';

afterAll(removeFakeRuns);

/** Gives all of `size` ranks what each of them brought, once the last has arrived. */
class Meeting<Item> {
  private brought: Item[] = [];
  private waiting: ((brought: Item[]) => void)[] = [];

  constructor(private readonly size: number) {}

  meet(rank: number, item: Item): Promise<Item[]> {
    this.brought[rank] = item;
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      if (this.waiting.length < this.size) return;
      const [brought, waiting] = [this.brought, this.waiting];
      [this.brought, this.waiting] = [[], []];
      waiting.forEach((answer) => answer(brought));
    });
  }
}

interface Call {
  call: string;
  rows: unknown;
}

/** Ranks that meet at every call; rows travel as copies, as between processes. */
function ranksInProcess(size: number): Ranks[] {
  const meeting = new Meeting<Call>(size);
  const meet = async (rank: number, call: string, rows: unknown) => {
    const all = await meeting.meet(rank, { call, rows: structuredClone(rows) });
    expect(new Set(all.map((one) => one.call)).size).toBe(1);
    return all.map((one) => one.rows);
  };
  return Array.from({ length: size }, (_, rank): Ranks => ({
    rank,
    size,
    gather: async <Row>(rows: readonly Row[]) => (await meet(rank, 'gather', rows)).flat() as Row[],
    sum: async (values) => {
      const all = (await meet(rank, 'sum', values)) as number[][];
      return values.map((_value, i) => all.reduce((total, one) => total + one[i]!, 0));
    },
    reduceGradients: async (policy) => {
      const fake = policy as FakePolicy;
      const all = (await meet(rank, 'reduce', fake.gradient)) as Theta[];
      fake.gradient = [0, 1].map((j) => all.reduce((total, one) => total + one[j]!, 0)) as Theta;
    },
  }));
}

const CLOCKED = /^(step_time$|time\/|memory\/|micro_batches$)/;
const comparable = ({ metrics }: LoopStep) => Object.entries(metrics).filter(([name]) => !CLOCKED.test(name));

async function runRank(ranks: Ranks, more: ConfigInput, faults: FakeFaults = {}) {
  const { out, tokenizer, trainData, evalData } = fakeRun();
  const settings = { maxCompletionLength: 40, learningRate: 100, evalProblems: 0, ...more };
  const opening = await openNew(out, {
    settings,
    parts: { tokenizer, trainData, evalData },
    fetching: {},
    acceptChanged: [],
    trust: false,
  });
  const watchdog = { ...NO_WATCH, loaded: () => undefined } as unknown as Watchdog;
  const { loop } = await openModel(opening, watchdog, { engine: new FakeEngine(faults) });
  const start = await startState(opening, loop);
  const steps: LoopStep[] = [];
  for await (const step of trainSteps({ ...loop, ranks }, start.position)) steps.push(step);
  rmSync(out, { recursive: true });
  return { steps, theta: (loop.policy as FakePolicy).theta, engine: loop.engine as FakeEngine };
}

const settings = { maxSteps: 4, promptsPerStep: 3, numGenerations: 4 };

test.each([
  ['on-policy', {}],
  ['several updates per batch, with a KL term', { numIterations: 2, beta: 0.04, maxSteps: 6 }],
  ['the tokens of highest entropy', { topEntropyQuantile: 0.4 }],
  ['the importance sampling correction', { importanceSamplingCorrection: 'token_truncate' as const }],
])('two ranks make the steps of one: %s', async (_, more) => {
  const one = await runRank(ONE_RANK, { ...settings, ...more });
  const two = await Promise.all(ranksInProcess(2).map((ranks) => runRank(ranks, { ...settings, ...more })));
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
  const two = await Promise.all(ranksInProcess(2).map((ranks) => runRank(ranks, settings)));
  const trained = two.map(({ engine }) =>
    engine.model!.policy!.passes.reduce((sum, { promptLengths }) => sum + promptLengths.length, 0),
  );
  const one = await runRank(ONE_RANK, settings);
  const all = one.engine.model!.policy!.passes.reduce((sum, pass) => sum + pass.promptLengths.length, 0);
  expect(trained[0]! + trained[1]!).toBe(all);
  expect(Math.min(...trained)).toBeGreaterThan(0);
});

test.each(['generate', 'score', 'accumulate'] as const)(
  'a number in %s that is not finite on one rank makes all ranks refuse the step',
  async (bad) => {
    const faulty: FakeFaults = { nonFinite: (call) => call === bad };
    const two = await Promise.all(
      ranksInProcess(2).map((ranks) =>
        runRank(ranks, { ...settings, maxSteps: 1, beta: 0.04 }, ranks.rank === 1 ? faulty : {}),
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
