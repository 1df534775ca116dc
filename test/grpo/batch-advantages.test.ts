import { batchAdvantages, type AdvantageSettings } from '../../src/grpo/advantages';
import type { BatchRewards } from '../../src/grpo/sample';
import type { Group } from '../../src/base/types';
import { loopCases } from '../helpers/loop-fixture';

interface AggregationCase {
  name: string;
  functions: number[][];
  weights: number[];
  groupSize: number;
  aggregation: AdvantageSettings['multiObjectiveAggregation'];
  scale: AdvantageSettings['scaleRewards'];
  advantages: number[];
  fracZeroStd: number;
}

const plain: AdvantageSettings = {
  multiObjectiveAggregation: 'sum_then_normalize',
  scaleRewards: 'group',
  advantageEpsilon: 1e-4,
  numRemainsInGroup: null,
  groupFilter: 'shortest',
};

/** What `scoreBatch` would return for these values. */
function rewardsOf(functions: readonly number[][], weights: readonly number[]): BatchRewards {
  const names = functions.map((_, k) => `f${k}`);
  return {
    rewards: functions[0]!.map((_, i) => ({
      total: functions.reduce((sum, values, k) => sum + weights[k]! * values[i]!, 0),
      parts: {},
    })),
    perFunction: Object.fromEntries(names.map((name, k) => [name, Float64Array.from(functions[k]!)])),
    weights: Object.fromEntries(names.map((name, k) => [name, weights[k]!])),
  };
}

const groupOf = (tokens: readonly number[], status = 'correct') =>
  ({ rollouts: tokens.map((totalTokens) => ({ totalTokens, verdict: { status } })) }) as Group;

describe('several rewards become advantages as in TRL', () => {
  test.each(loopCases<AggregationCase>('aggregations').map((c) => [c.name, c] as const))('%s', (_, c) => {
    const groups = Array.from({ length: c.advantages.length / c.groupSize }, () =>
      groupOf(new Array<number>(c.groupSize).fill(5)),
    );
    const settings = { ...plain, multiObjectiveAggregation: c.aggregation, scaleRewards: c.scale };
    const result = batchAdvantages(groups, rewardsOf(c.functions, c.weights), settings);
    // Both in float64; only the order of additions differs, magnified by 1 / (std + 1e-4).
    c.advantages.forEach((expected, i) => expect(Math.abs(result.values[i]! - expected)).toBeLessThan(1e-9));
    expect(result.fracZeroStd).toBeCloseTo(c.fracZeroStd, 12);
    expect(result.counted).not.toContain(false);
  });
});

test('a group whose reference cannot be read gets 0 and affects no other', () => {
  const unread = groupOf([3, 3], 'gold-unparseable');
  const settings = { ...plain, scaleRewards: 'batch' } as const;
  const without = batchAdvantages(
    [groupOf([1, 1]), groupOf([2, 2])],
    rewardsOf([[0, 1, 5, 7]], [1]),
    settings,
  );
  for (const multiObjectiveAggregation of ['sum_then_normalize', 'normalize_then_sum'] as const) {
    const { values, zeroVariance, counted, fracZeroStd } = batchAdvantages(
      [unread, groupOf([1, 1]), unread, groupOf([2, 2])],
      rewardsOf([[0, 9, 0, 1, 4, 4, 5, 7]], [1]),
      { ...settings, multiObjectiveAggregation },
    );
    if (multiObjectiveAggregation === 'sum_then_normalize') {
      expect([...values]).toEqual([0, 0, ...without.values.slice(0, 2), 0, 0, ...without.values.slice(2)]);
    }
    expect([0, 1, 4, 5].map((i) => values[i])).toEqual([0, 0, 0, 0]);
    expect(zeroVariance).toEqual([true, false, true, false]);
    expect(counted).toEqual([false, false, true, true, false, false, true, true]);
    expect(fracZeroStd).toBe(0);
  }
  expect(batchAdvantages([unread], rewardsOf([[0, 1]], [1]), plain).fracZeroStd).toBe(1);
});

test('groups of different sizes are each normalised on their own', () => {
  const rewards = rewardsOf([[0, 1, 5, 5, 5, 7]], [1]);
  const { values, zeroVariance } = batchAdvantages(
    [groupOf([1, 1]), groupOf([1, 1, 1]), groupOf([1])],
    rewards,
    plain,
  );
  expect(zeroVariance).toEqual([false, true, true]);
  expect([...values.slice(2)]).toEqual([0, 0, 0, 0]);
  expect(values[1]).toBeCloseTo(0.5 / (Math.SQRT1_2 + 1e-4), 12);
});

describe('GFPO learns from the best of each group', () => {
  const groups = [groupOf([40, 10, 30, 20]), groupOf([7, 7, 7, 9])];
  const rewards = rewardsOf([[1, 0, 1, 0.5, 1, 0, 2, 3]], [1]);

  test('the shortest are kept, with ties going to the earlier sample; the others have advantage 0', () => {
    const { values, counted } = batchAdvantages(groups, rewards, { ...plain, numRemainsInGroup: 2 });
    expect(counted).toEqual([false, true, false, true, true, true, false, false]);
    // Mean and deviation are over the kept ones alone: 0 and 0.5, then 1 and 0.
    const [a, b] = [0.25 / (Math.sqrt(0.125) + 1e-4), 0.5 / (Math.sqrt(0.5) + 1e-4)];
    [0, -a, 0, a, b, -b, 0, 0].forEach((expected, i) => expect(values[i]).toBeCloseTo(expected, 12));
  });

  test('efficiency keeps the most reward per token', () => {
    const settings: AdvantageSettings = { ...plain, numRemainsInGroup: 2, groupFilter: 'efficiency' };
    const { counted } = batchAdvantages(groups, rewards, settings);
    // Per token: 1/40, 0, 1/30, 1/40 and 1/7, 0, 2/7, 3/9.
    expect(counted).toEqual([true, false, true, false, false, false, true, true]);
  });

  test('keeping all changes nothing, with either aggregation', () => {
    for (const multiObjectiveAggregation of ['sum_then_normalize', 'normalize_then_sum'] as const) {
      const all = batchAdvantages(groups, rewards, { ...plain, multiObjectiveAggregation });
      const kept = batchAdvantages(groups, rewards, {
        ...plain,
        multiObjectiveAggregation,
        numRemainsInGroup: 4,
      });
      expect(kept).toEqual(all);
    }
  });

  test('a group whose kept rewards are equal has no variance', () => {
    const same = rewardsOf([[9, 1, 8, 1, 0, 1, 2, 3]], [1]);
    const { zeroVariance, fracZeroStd } = batchAdvantages(groups, same, { ...plain, numRemainsInGroup: 2 });
    expect(zeroVariance).toEqual([true, false]);
    expect(fracZeroStd).toBe(0.5);
  });
});
