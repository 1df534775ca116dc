import { listRewards, registerReward, resolveReward } from '../../src/rewards';
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

describe.each(listRewards().map((definition) => [definition.name, definition] as const))(
  '%s',
  (_, definition) => {
    const bound = definition.bind({});
    const batch = [
      group(rollout(true, 10), rollout(false, 40), rollout(true, 180, false)),
      group(rollout(false, 0), rollout(true, 0), rollout(true, 200)),
    ];
    const scores = (order: (rows: typeof batch) => typeof batch) =>
      Promise.all(
        order(batch).flatMap((own) =>
          own.rollouts.map(async (row) => {
            const state = bound.initialState({ maxLength: 200 });
            return [
              row,
              await bound.score(row, { step: 3, maxLength: 200, group: own, batch, state }),
            ] as const;
          }),
        ),
      );

    test('describes itself', () => {
      for (const text of [definition.summary, definition.formula, definition.source]) {
        expect(text).not.toBe('');
      }
    });

    test('scores are finite, and their parts add up to them', async () => {
      for (const [, { value, parts }] of await scores((rows) => rows)) {
        expect(Number.isFinite(value)).toBe(true);
        if (parts !== undefined) {
          expect(Object.values(parts).reduce((sum, part) => sum + part, 0)).toBeCloseTo(value, 12);
        }
      }
    });

    test('the order of scoring does not matter', async () => {
      const forward = new Map(await scores((rows) => rows));
      for (const [row, score] of await scores((rows) => [...rows].reverse())) {
        expect(score).toEqual(forward.get(row));
      }
    });

    test('observing changes nothing it is given and its state survives JSON', () => {
      const state = bound.initialState({ maxLength: 200 });
      const before = JSON.stringify(state);
      const next = bound.observe(state, { step: 3, maxLength: 200, batch });
      expect(JSON.stringify(state)).toBe(before);
      expect(JSON.parse(JSON.stringify(next))).toEqual(next);
      for (const value of Object.values(bound.metrics(next))) expect(Number.isFinite(value)).toBe(true);
    });

    test('refuses a parameter it does not know', () => {
      expect(() => definition.bind({ lenght: 1 })).toThrow(
        expect.objectContaining({ code: 'BAD_CONFIG', message: expect.stringContaining('lenght') }),
      );
    });
  },
);

test('a wrong parameter is named with its bound', () => {
  expect(() => resolveReward('acoer', { checkWindow: 0, alfaInit: 1 })).toThrow(
    expect.objectContaining({
      message: expect.stringMatching(/rewardParams\.acoer\.checkWindow.*at least 1[^]*alphaInit/),
    }),
  );
  expect(() => resolveReward('acoer', { alphaInit: 0.9 })).toThrow(/alphaMin <= alphaInit <= alphaMax/);
});

test('an unknown reward is answered with the nearest known name', () => {
  expect(() => resolveReward('acoerr')).toThrow(/Unknown reward "acoerr"; did you mean `acoer`/);
});

describe('a reward of the user’s own', () => {
  test('sees `correct` and its group', async () => {
    registerReward('mine', (own, { rollouts }) => (own.correct ? 1 : 0) + rollouts.indexOf(own) / 10);
    const own = group(rollout(false, 1), rollout(true, 2));
    const view = { step: 0, maxLength: 9, group: own, batch: [own], state: null };
    const bound = resolveReward('mine');
    expect(await bound.score(own.rollouts[0]!, view)).toEqual({ value: 0 });
    expect(await bound.score(own.rollouts[1]!, view)).toEqual({ value: 1.1 });
  });

  test('may be asynchronous, and replaces its earlier self', async () => {
    registerReward('mine', async () => 7);
    expect(await scoreOf('mine', {}, true, 1)).toEqual({ value: 7 });
    expect(listRewards().map(({ name }) => name)).toContain('mine');
  });

  test('may not take a built-in name', () => {
    for (const name of ['acoer', 'format']) expect(() => registerReward(name, () => 0)).toThrow(/built in/);
  });
});
