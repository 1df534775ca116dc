/**
 * What every registered reward must be: finite, pure, independent of order, resumable, and as its taxonomy
 * says.
 */
import { listRewards } from '../../src/rewards';
import type { BoundReward, RewardDefinition } from '../../src/rewards';
import { uniformStream } from '../../src/base/rng';
import type { Group, Rollout } from '../../src/base/types';
import { describedGroup, rollout } from './rollouts';

const MAX_LENGTH = 1000;

/** Batches with every kind of group, including empty and single completions. */
function randomBatches(seed: bigint, count: number): Group[][] {
  const next = uniformStream(seed);
  const whole = (below: number) => Math.floor(next() * below);
  const groupOf = (size: number) => {
    const chance = [0, 0.5, 1][whole(3)]!;
    const longest = [1, 40, MAX_LENGTH][whole(3)]!;
    const completions = Array.from({ length: size }, () => {
      const thinking = whole(longest);
      const total = Math.min(MAX_LENGTH, thinking + whole(30));
      const closed = next() < 0.8;
      return { correct: next() < chance, thinking, total, closed, format: closed };
    });
    return describedGroup(`p${whole(5)}`, completions, MAX_LENGTH);
  };
  return Array.from({ length: count }, () => Array.from({ length: 3 }, () => groupOf(1 + whole(6))));
}

function deepFreeze<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || Object.isFrozen(value)) {
    return value;
  }
  Object.freeze(value);
  Object.values(value).forEach(deepFreeze);
  return value;
}

const shuffled = <Item>(items: readonly Item[]): Item[] =>
  [...items].reverse().map((_, i, list) => list[(i + 1) % list.length]!);

/** The same batch with its groups, and the completions in each, reordered. */
const reordered = (batch: readonly Group[]): Group[] =>
  shuffled(batch).map((group) => ({ ...group, rollouts: shuffled(group.rollouts) }));

async function scoresOf(bound: BoundReward, batch: readonly Group[], state: unknown, step = 0) {
  const values = new Map<Rollout, number>();
  for (const group of batch) {
    for (const own of group.rollouts) {
      const view = { step, maxLength: MAX_LENGTH, group, batch, state };
      values.set(own, (await bound.score(own, view)).value);
    }
  }
  return values;
}

const observed = (bound: BoundReward, state: unknown, batch: readonly Group[], step: number) =>
  bound.observe(state, { step, maxLength: MAX_LENGTH, batch });

/** The state before each of `batches` and after the last. */
async function statesOver(bound: BoundReward, batches: readonly Group[][]): Promise<unknown[]> {
  const states: unknown[] = [bound.initialState({ maxLength: MAX_LENGTH })];
  for (const [step, batch] of batches.entries()) {
    states.push(await observed(bound, states.at(-1), batch, 200 + step));
  }
  return states;
}

/** Parameters that adapt quickly, so that short runs change every state. */
const QUICK: Record<string, Record<string, number>> = {
  acoer: { warmupSteps: 0, checkWindow: 2, minBudget: 10 },
  'laser-d': { monitorSteps: 1, monitorWindow: 4 },
};

/** Values of one completion of the given kind at each of `lengths`, with the rest of its group fixed. */
async function sweep(
  bound: BoundReward,
  state: unknown,
  correct: boolean,
  others: readonly number[],
  lengths: readonly number[],
  limit: number,
): Promise<number[]> {
  const values: number[] = [];
  for (const l of lengths) {
    const described = [l, ...others].map((total, i) => ({
      correct: i === 0 ? correct : i % 2 === 1,
      thinking: total,
      total,
      closed: true,
      format: true,
    }));
    const group = describedGroup('p0', described, limit);
    const view = { step: 0, maxLength: MAX_LENGTH, group, batch: [group], state };
    values.push((await bound.score(group.rollouts[0]!, view)).value);
  }
  return values;
}

const differences = (values: readonly number[]) => values.slice(1).map((value, i) => value - values[i]!);
const largest = (values: readonly number[]) => Math.max(...values.map(Math.abs));
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

/** Groups with spread-out lengths, and with all lengths within a few tokens. */
const SPREAD = [150, 320, 480, 650, 880];
const CLOSE = [498, 499, 500, 501, 502];
const plainGroup = (problem: string, correct: boolean, lengths: readonly number[]): Group => {
  const described = lengths.map((l) => ({ correct, thinking: l, total: l, closed: true, format: true }));
  return describedGroup(problem, described, MAX_LENGTH);
};
/** A history for adaptive rewards: problem p0 solved in 400 tokens, another not at all. */
const HISTORY = [
  plainGroup('p0', true, [400, 450, 500, 600]),
  plainGroup('p1', false, [90, 95, 100, 200, 300, 400, 500, 600]),
];

/** Rounding in the group's sums may look like a slope. */
const FLAT = 1e-12;

const all = listRewards().map((definition): [string, RewardDefinition] => [definition.name, definition]);

describe.each(all)('%s', (name, definition) => {
  const bound = definition.bind(QUICK[name] ?? {});
  const batches = randomBatches(7n, 12).map(deepFreeze);

  test('describes itself and accepts its own defaults', () => {
    for (const text of [definition.summary, definition.formula, definition.source]) expect(text).not.toBe('');
    expect(definition.taxonomy).toBeDefined();
    expect(definition.bind(definition.defaults).name).toBe(name);
    expect(() => definition.bind({ lenght: 1 })).toThrow(
      expect.objectContaining({ code: 'BAD_CONFIG', message: expect.stringContaining('lenght') }),
    );
  });

  test('is finite on every kind of batch, and its parts add up', async () => {
    const states = await statesOver(bound, batches);
    for (const [step, batch] of batches.entries()) {
      for (const group of batch) {
        for (const own of group.rollouts) {
          const view = { step, maxLength: MAX_LENGTH, group, batch, state: states[step] };
          const { value, parts } = await bound.score(own, view);
          expect(Number.isFinite(value)).toBe(true);
          if (parts !== undefined) {
            expect(Object.values(parts).reduce((sum, part) => sum + part, 0)).toBeCloseTo(value, 12);
          }
        }
      }
    }
    for (const state of states) {
      for (const value of Object.values(bound.metrics(state))) expect(Number.isFinite(value)).toBe(true);
    }
  });

  test('is pure: frozen input, the same value each time, in any order of calls', async () => {
    const states = (await statesOver(bound, batches)).map(deepFreeze);
    for (const [step, batch] of batches.entries()) {
      const first = await scoresOf(bound, batch, states[step], step);
      const again = await scoresOf(bound, [...batch].reverse(), states[step], step);
      for (const [own, value] of first) expect(again.get(own)).toBe(value);
      await observed(bound, states[step], batch, step);
    }
  });

  test('does not depend on the order of completions in a group or of groups in a batch', async () => {
    let [state, other]: unknown[] = [
      bound.initialState({ maxLength: MAX_LENGTH }),
      bound.initialState({ maxLength: MAX_LENGTH }),
    ];
    for (const [step, batch] of batches.entries()) {
      const moved = reordered(batch);
      const values = await scoresOf(bound, batch, state, step);
      const movedValues = await scoresOf(bound, moved, other, step);
      // Only the order of additions differs.
      for (const [own, value] of values) expect(movedValues.get(own)).toBeCloseTo(value, 9);
      state = await observed(bound, state, batch, step);
      other = await observed(bound, other, moved, step);
    }
  });

  test('its state survives JSON: a resumed run continues identically', async () => {
    const states = await statesOver(bound, batches);
    for (const [step, batch] of batches.entries()) {
      const restored: unknown = JSON.parse(JSON.stringify(states[step]));
      expect(restored).toEqual(states[step]);
      const next = await observed(bound, restored, batch, 200 + step);
      expect(next).toEqual(states[step + 1]);
      expect([...(await scoresOf(bound, batch, restored)).values()]).toEqual([
        ...(await scoresOf(bound, batch, states[step])).values(),
      ]);
    }
  });

  test('evaluation cannot change it: scoring other batches leaves the state and later values alone', async () => {
    const evaluation = randomBatches(99n, 3);
    let state = bound.initialState({ maxLength: MAX_LENGTH });
    const undisturbed = await statesOver(bound, batches);
    for (const [step, batch] of batches.entries()) {
      for (const other of evaluation) await scoresOf(bound, other, state, step);
      state = await observed(bound, state, batch, 200 + step);
      expect(state).toEqual(undisturbed[step + 1]);
    }
  });

  describe('its taxonomy', () => {
    const taxonomy = definition.taxonomy!;
    const lengths = range(20, MAX_LENGTH);

    test.each(['correct', 'incorrect'] as const)(
      'pushes the length of %s answers as it says',
      async (kind) => {
        const state = (await statesOver(bound, [HISTORY, HISTORY, HISTORY])).at(-1);
        // Completions of 900 tokens or more count as cut off here, which is a pressure too.
        const steps = differences(await sweep(bound, state, kind === 'correct', SPREAD, lengths, 900));
        const [rises, falls] = [steps.some((step) => step > FLAT), steps.some((step) => step < -FLAT)];
        const seen = rises && falls ? 'target' : rises ? 'longer' : falls ? 'shorter' : 'none';
        expect(seen).toBe(taxonomy[kind]);
      },
    );

    test('jumps or does not, as it says', async () => {
      const state = (await statesOver(bound, [HISTORY, HISTORY, HISTORY])).at(-1);
      const jumps = await Promise.all(
        [true, false].map(async (correct) =>
          largest(differences(await sweep(bound, state, correct, SPREAD, range(20, 1001), 900))),
        ),
      );
      // One more token changes a continuous reward by at most a few hundredths, a step by at least a tenth.
      if (taxonomy.continuous) expect(Math.max(...jumps)).toBeLessThan(0.03);
      else expect(Math.max(...jumps)).toBeGreaterThan(0.09);
    });

    test('keeps state exactly when it is adaptive', async () => {
      const states = await statesOver(bound, batches);
      expect(JSON.stringify(states.at(-1)) !== JSON.stringify(states[0])).toBe(taxonomy.adaptive);
    });

    if (taxonomy.bounded && taxonomy.continuous) {
      test('is no steeper in a group of nearly equal lengths', async () => {
        const state = (await statesOver(bound, [HISTORY, HISTORY, HISTORY])).at(-1);
        for (const correct of [true, false]) {
          const slope = async (others: number[]) =>
            largest(differences(await sweep(bound, state, correct, others, range(490, 510), MAX_LENGTH)));
          expect(await slope(CLOSE)).toBeLessThanOrEqual(1.001 * (await slope(SPREAD)) + FLAT);
        }
      });
    }
  });
});

test('a group of one is scored like any other', async () => {
  const own = rollout(true, 10);
  const group = { prompt: own.prompt, rollouts: [own] };
  for (const [, definition] of all) {
    const values = await scoresOf(
      definition.bind({}),
      [group],
      definition.bind({}).initialState({ maxLength: 50 }),
    );
    expect([...values.values()].every(Number.isFinite)).toBe(true);
  }
});
