import { errorCode } from '../../src/base/errors';
import type { WeightedReward } from '../../src/rewards/types';
import { observeBatch, scoreBatch, type RewardSettings } from '../../src/grpo/rewards';
import type { BoundReward } from '../../src/rewards/types';
import type { Group, Rollout } from '../../src/base/types';

const settings: RewardSettings = { step: 3, maxLength: 100, formatWeight: 0.5, timeoutMs: 50 };

function groupOf(index: number, formats: boolean[]): Group {
  const prompt = { index, problem: { id: `p${index}` }, ids: Int32Array.of(1) } as Group['prompt'];
  const none = { ids: new Int32Array(), logprobs: new Float64Array(), entropies: new Float64Array() };
  const rollouts = formats.map(
    (format, sample) => ({ ...none, prompt, sample, format, thinkingTokens: 10 * sample }) as Rollout,
  );
  return { prompt, rollouts };
}

const groups = [groupOf(7, [true, false]), groupOf(8, [true, true])];

function rewardOf(name: string, score: BoundReward<number>['score'], weight = 1): WeightedReward {
  const reward: BoundReward<number> = {
    name,
    initialState: () => 0,
    observe: (state, view) => state + view.batch.length,
    score,
    metrics: () => ({}),
  };
  return { reward, weight };
}

test('rewards are weighted and summed; their unweighted values are kept', async () => {
  const length = rewardOf('length', (rollout) => ({ value: rollout.thinkingTokens }), 2);
  const slow = rewardOf('slow', (_, view) => Promise.resolve({ value: view.state }));
  const result = await scoreBatch(groups, [length, slow], { length: 0, slow: 4 }, settings);
  expect(result.rewards.map((reward) => reward.total)).toEqual([4.5, 24, 4.5, 24.5]);
  expect(result.rewards[1]!.parts).toEqual({ length: 20, slow: 4, format: 0 });
  expect([...result.perFunction.length!]).toEqual([0, 10, 0, 10]);
});

test('with weight 0 the format reward is left out', async () => {
  const result = await scoreBatch(
    groups,
    [rewardOf('one', () => ({ value: 1 }))],
    { one: 0 },
    { ...settings, formatWeight: 0 },
  );
  expect(Object.keys(result.perFunction)).toEqual(['one']);
});

test.each<[string, BoundReward<number>['score'], RegExp]>([
  ['NaN', () => ({ value: NaN }), /Reward "bad" gave NaN for sample 0 of prompt 7 \(problem p7\)/],
  ['a text', () => ({ value: '1' as unknown as number }), /gave 1 for sample 0/],
  ['nothing', () => undefined as never, /gave undefined for sample 0/],
  [
    'a throw',
    () => {
      throw new Error('boom');
    },
    /Reward "bad" failed on sample 0 of prompt 7 .*: boom/,
  ],
  ['a rejection', () => Promise.reject(new Error('net')), /failed on sample 0 .*: net/],
  ['no answer', () => new Promise(() => undefined), /failed on .*: no answer within 50 ms/],
])('%s fails the run, naming reward and sample', async (_, score, message) => {
  const failing = scoreBatch(groups, [rewardOf('bad', score)], { bad: 0 }, settings);
  await expect(failing).rejects.toThrow(message);
  expect(await failing.catch(errorCode)).toBe('REWARD_FAILED');
});

test('states advance once per batch, and the old ones are not changed', async () => {
  const states = { length: 5 };
  const next = await observeBatch(groups, [rewardOf('length', () => ({ value: 0 }))], states, settings);
  expect(next).toEqual({ length: 7 });
  expect(states).toEqual({ length: 5 });
});
