import { computeAdvantages, type RewardScale } from '../../src/grpo/advantages';
import { loopCases } from '../helpers/loop-fixture';

interface AdvantageCase {
  name: string;
  rewards: number[];
  groupSize: number;
  scale: RewardScale;
  advantages: number[];
  fracZeroStd: number;
}

describe('advantages equal TRL', () => {
  test.each(loopCases<AdvantageCase>('advantages').map((c) => [c.name, c] as const))('%s', (_, c) => {
    const result = computeAdvantages(Float64Array.from(c.rewards), c.groupSize, c.scale, 1e-4);
    // Both in float64; only the order of additions differs, magnified by 1 / (std + 1e-4).
    c.advantages.forEach((expected, i) => expect(Math.abs(result.values[i]! - expected)).toBeLessThan(1e-9));
    expect(result.fracZeroStd).toBeCloseTo(c.fracZeroStd, 12);
  });
});

test('a group of equal rewards has advantages of exactly 0, however its mean is rounded', () => {
  const { values, zeroVariance } = computeAdvantages(
    Float64Array.from([0.1, 0.1, 0.1, 1, 2, 3]),
    3,
    'group',
    1e-4,
  );
  expect([...values.slice(0, 3)]).toEqual([0, 0, 0]);
  expect(zeroVariance).toEqual([true, false]);
});

test('a group whose rewards differ in the last bit is not a zero-variance group', () => {
  const { zeroVariance } = computeAdvantages(Float64Array.from([1, 1 + Number.EPSILON]), 2, 'group', 1e-4);
  expect(zeroVariance).toEqual([false]);
});
