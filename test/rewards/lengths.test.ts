/** Which part of a completion counts as its length. */
import { resolveReward } from '../../src/rewards';
import type { Rollout } from '../../src/base/types';
import { group, rollout } from './rollouts';

function valueOf(own: Rollout, params: Record<string, unknown> = {}): number {
  const reward = resolveReward('acoer', params);
  const state = reward.initialState({ maxLength: 100 });
  const view = { step: 0, maxLength: 100, group: group(own), batch: [group(own)], state };
  return (reward.score(own, view) as { value: number }).value;
}

test('ACOER: thinking in a second block costs as much as in the first', () => {
  const split = { ...rollout(true, 10), laterThinkingTokens: 40 };
  expect(valueOf(split)).toBe(valueOf(rollout(true, 50)));
  expect(valueOf(split)).toBeLessThan(valueOf(rollout(true, 10)));
});

test('`first-block` counts only the first block, as the authors’ code does', () => {
  const split = { ...rollout(true, 10), laterThinkingTokens: 40 };
  expect(valueOf(split, { lengthOf: 'first-block' })).toBe(valueOf(rollout(true, 10)));
});

test('`total` closes the last loophole: reasoning after an empty block counts', () => {
  const moved = { ...rollout(true, 0), answerTokens: 60, totalTokens: 62 };
  expect(valueOf(moved)).toBe(valueOf(rollout(true, 0)));
  expect(valueOf(moved, { lengthOf: 'total' })).toBe(valueOf(rollout(true, 62)));
});

test('`total` needs no closed thinking, nor does the controller: a model without <think> has none', () => {
  const plain = { ...rollout(true, 62, false), totalTokens: 62 };
  expect(valueOf(plain)).toBe(1);
  expect(valueOf(plain, { lengthOf: 'total' })).toBe(valueOf(rollout(true, 62)));
  const reward = resolveReward('acoer', { lengthOf: 'total' });
  const seen = { step: 0, maxLength: 100, batch: [group(plain)] };
  const after = reward.observe(reward.initialState({ maxLength: 100 }), seen);
  expect(after).toMatchObject({ emaCorrectLength: 62 });
});

test.each([
  ['<think>abcd</think>x<think>efghijkl</think>y', false, 3, 1],
  ['abcd</think>x<think>efghijkl', true, 3, 1],
  ['abcdefgh', false, 2, 2],
])('in characters over 4: %s', (text, thinkOpened, all, first) => {
  const made = rollout(true, 0);
  const own = { ...made, text, prompt: { ...made.prompt, thinkOpened } };
  const chars = { lengthUnit: 'chars' };
  expect(valueOf(own, chars)).toBe(valueOf(rollout(true, all)));
  expect(valueOf(own, { ...chars, lengthOf: 'first-block' })).toBe(valueOf(rollout(true, first)));
});
