import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { listRewards, registerReward, resolveReward } from '../../src/rewards/registry';
import { group, rollout } from './rollouts';

async function scoreOf(name: string, params: Record<string, unknown>, ...args: Parameters<typeof rollout>) {
  const own = rollout(...args);
  const reward = resolveReward(name, params);
  const state = reward.initialState({ maxLength: 200 });
  return reward.score(own, { step: 0, maxLength: 200, group: group(own), batch: [group(own)], state });
}

test('acc is correctness', async () => {
  expect(await scoreOf('acc', {}, true, 50)).toEqual({ value: 1 });
  expect(await scoreOf('acc', {}, false, 50)).toEqual({ value: 0 });
});

test('grpo-lp is c - alpha * l / L, for wrong answers too', async () => {
  expect((await scoreOf('grpo-lp', {}, true, 50)).value).toBeCloseTo(1 - (0.3 * 50) / 200, 15);
  expect((await scoreOf('grpo-lp', {}, false, 100)).value).toBeCloseTo(-0.15, 15);
  expect((await scoreOf('grpo-lp', { alpha: 1 }, true, 200)).value).toBe(0);
});

test('a wrong parameter is named with its bound', () => {
  expect(() => resolveReward('acoer', { checkWindow: 0, alfaInit: 1 })).toThrow(
    expect.objectContaining({
      message: expect.stringMatching(/rewardParams\.acoer\.checkWindow.*at least 1[^]*alphaInit/),
    }),
  );
  expect(() => resolveReward('acoer', { alphaInit: 0.9 })).toThrow(/alphaMin <= alphaInit <= alphaMax/);
});

test('the error for an unknown reward suggests the nearest known name', () => {
  expect(() => resolveReward('acoerr')).toThrow(/Unknown reward "acoerr"; did you mean `acoer`/);
});

describe('a user’s reward', () => {
  test('sees `correct` and its group', async () => {
    registerReward('mine', (own, { rollouts }) => (own.correct ? 1 : 0) + rollouts.indexOf(own) / 10);
    const own = group(rollout(false, 1), rollout(true, 2));
    const view = { step: 0, maxLength: 9, group: own, batch: [own], state: null };
    const bound = resolveReward('mine');
    expect(await bound.score(own.rollouts[0]!, view)).toEqual({ value: 0 });
    expect(await bound.score(own.rollouts[1]!, view)).toEqual({ value: 1.1 });
  });

  test('may be asynchronous, and replaces an earlier one of the same name', async () => {
    registerReward('mine', async () => 7);
    expect(await scoreOf('mine', {}, true, 1)).toEqual({ value: 7 });
    expect(listRewards().map(({ name }) => name)).toContain('mine');
  });

  test('may not use a built-in name', () => {
    for (const name of ['acoer', 'format']) expect(() => registerReward(name, () => 0)).toThrow(/built in/);
  });
});

test('docs/rewards.md has every built-in reward', () => {
  const docs = readFileSync(join(__dirname, '../../docs/rewards.md'), 'utf8');
  const builtIn = listRewards().filter(({ source }) => source !== 'registerReward');
  expect(builtIn.filter(({ name }) => !docs.includes(`\`${name}\``)).map(({ name }) => name)).toEqual([]);
});
