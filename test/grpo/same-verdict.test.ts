import { computeAdvantages } from '../../src/grpo/advantages';
import { groupMetrics } from '../../src/grpo/metrics';
import { brevityShare, sameVerdictShare, withPressure } from '../../src/grpo/same-verdict';
import type { LoopState } from '../../src/grpo/context';
import type { Group, Rollout } from '../../src/base/types';

/** Groups of [correct, thinking tokens]; every completion has the right format. */
const groupsOf = (...answers: [boolean, number][][]): Group[] =>
  answers.map((rows) => ({
    prompt: {} as Group['prompt'],
    rollouts: rows.map(([correct, thinkingTokens]) => {
      const verdict = { correct, status: correct ? 'correct' : 'incorrect', extracted: null };
      return { verdict, thinkingTokens, format: true } as Rollout;
    }),
  }));

const allRight = groupsOf([
  [true, 10],
  [true, 20],
  [true, 30],
  [true, 60],
]);
const mixed = groupsOf([
  [true, 10],
  [true, 30],
  [false, 10],
  [false, 50],
]);

/** Advantages of grpo-lp's rewards with alpha 0.3 and L 100. */
function advantagesOf(groups: Group[]) {
  const rewards = groups.flatMap(({ rollouts }) =>
    rollouts.map(({ verdict, thinkingTokens }) => Number(verdict.correct) - (0.3 * thinkingTokens) / 100),
  );
  const advantages = computeAdvantages(Float64Array.from(rewards), 4, 'group', 1e-4);
  return { ...advantages, counted: rewards.map(() => true) };
}

test('if all answers are right, the pressure is a factor on every advantage', () => {
  const full = advantagesOf(allRight);
  const eased = withPressure(allRight, full, 0.25);
  eased.forEach((value, i) => expect(value).toBeCloseTo(0.25 * full.values[i]!, 12));
});

test('without pressure only the verdict counts, and its share is unchanged', () => {
  const full = advantagesOf(mixed);
  const eased = withPressure(mixed, full, 0);
  expect(eased[0]).toBe(eased[1]);
  expect(eased[2]).toBe(eased[3]);
  expect(eased[0]! + eased[1]!).toBeCloseTo(full.values[0]! + full.values[1]!, 12);
  expect(eased.reduce((a, b) => a + b, 0)).toBeCloseTo(0, 12);
});

test('a pressure of 1 changes nothing', () => {
  const full = advantagesOf(mixed);
  expect(withPressure(mixed, full, 1)).toBe(full.values);
});

test('a completion that is not learnt from keeps its advantage of 0 and affects no other', () => {
  const full = advantagesOf(allRight);
  const values = Float64Array.from(full.values);
  values[3] = 0;
  const eased = withPressure(allRight, { values, counted: [true, true, true, false] }, 0);
  expect(eased[3]).toBe(0);
  expect(eased[0]).toBeCloseTo((values[0]! + values[1]! + values[2]!) / 3, 12);
});

test('the share of same-verdict advantages is 1 if only length differs and 0 if only the verdict does', () => {
  expect(sameVerdictShare(allRight, advantagesOf(allRight))).toBeCloseTo(1, 12);
  const full = advantagesOf(mixed);
  expect(sameVerdictShare(mixed, { ...full, values: withPressure(mixed, full, 0) })).toBeCloseTo(0, 12);
});

test('brevity always pays with a static length reward, never with the verdict alone, sometimes with a budget', () => {
  const groups = [...allRight, ...mixed];
  const paid = (rewardOf: (rollout: Rollout) => number, dropped = false) => {
    const rewards = groups.flatMap(({ rollouts }) => rollouts.map(rewardOf));
    const { values } = computeAdvantages(Float64Array.from(rewards), 4, 'group', 1e-4);
    return brevityShare(groups, { values, counted: rewards.map(() => !dropped) });
  };
  const verdict = (rollout: Rollout) => Number(rollout.verdict.correct);
  expect(brevityShare(groups, advantagesOf(groups))).toBe(1);
  expect(paid(verdict)).toBe(0);
  // A budget of 25 tokens tells apart all pairs of 10, 20 | 30, 60 and of 10 | 30 but (10, 20) and (30, 60).
  expect(paid((rollout) => verdict(rollout) + Number(rollout.thinkingTokens < 25))).toBeCloseTo(5 / 7, 12);
  expect(paid(verdict, true)).toBeNull();
});

test('group metrics: spreads within groups, extremes, brevity times the remaining pressure', () => {
  const groups = [...allRight, ...mixed];
  const advantages = advantagesOf(groups);
  const state = { eased: { rollbacks: 1, pressure: 0.1 } } as LoopState;
  const metrics = groupMetrics({ groups, advantages, state });
  expect(metrics['advantages/brevity']).toBe(0.1);
  // Standard deviations with Bessel's correction, by hand: of 10, 20, 30, 60 and of 10, 30.
  expect(metrics['thinking/correct_group_std']).toBeCloseTo((Math.sqrt(1400 / 3) + Math.sqrt(200)) / 2, 10);
  expect(metrics['thinking/wrong_group_std']).toBeCloseTo(Math.sqrt(800), 10);
  expect(metrics['advantages/max']).toBe(Math.max(...advantages.values));
  expect(metrics['advantages/min']).toBe(Math.min(...advantages.values));
});
