/** The user's own rewards, registered through the API. */
import { registerReward, resolveReward } from '../../src/rewards/registry';
import { definitionOf, type UserReward } from '../../src/rewards/user';
import type { Group } from '../../src/base/types';
import { group, rollout } from './rollouts';

const own = group(rollout(true, 10), rollout(false, 20), rollout(true, 30));
const viewOf = (state: unknown, batch: Group[] = [own]) => ({
  step: 4,
  maxLength: 100,
  group: own,
  batch,
  state,
});

interface Seen {
  batches: number;
}

const counting: UserReward<Seen> = {
  summary: 'Counts batches.',
  defaults: { weight: 2, mode: 'plain' },
  initialState: ({ maxLength }) => ({ batches: maxLength - 100 }),
  score: (one, { state, params, step }) => ({
    value: (one.correct ? Number(params.weight) : 0) + state.batches + step,
    parts: { base: state.batches },
  }),
  observe: async (state, { batch }) => ({ batches: state.batches + batch.length }),
  metrics: (state) => ({ 'counting/batches': state.batches }),
  snapshot: ({ batches }) => ({ batches }),
};

describe('an object', () => {
  test('has parameters with defaults, and state that moves with each batch', async () => {
    registerReward('counting', counting);
    const bound = resolveReward('counting', { weight: 3 });
    const first = bound.initialState({ maxLength: 100 });
    expect(await bound.score(own.rollouts[0]!, viewOf(first))).toEqual({ value: 7, parts: { base: 0 } });
    const second = await bound.observe(first, { step: 4, maxLength: 100, batch: [own, own] });
    expect(second).toEqual({ batches: 2 });
    expect(first).toEqual({ batches: 0 });
    expect(await bound.score(own.rollouts[1]!, viewOf(second))).toMatchObject({ value: 6 });
    expect(bound.metrics(second)).toEqual({ 'counting/batches': 2 });
    expect(bound.snapshot!(second)).toEqual({ batches: 2 });
  });

  test('rejects parameters it does not list, and values of the wrong type', () => {
    const definition = definitionOf('counting', counting);
    expect(() => definition.bind({ wieght: 1 })).toThrow(
      'Reward "counting" takes no parameter wieght (it takes: weight, mode)',
    );
    expect(() => definition.bind({ weight: 'much' })).toThrow(
      'Parameter weight of reward "counting" must be a number, not "much"',
    );
  });

  test('needs a function', () => {
    for (const wrong of [{}, { score: 1 }, 7, null]) {
      expect(() => registerReward('wrong', wrong as never)).toThrow(
        expect.objectContaining({ code: 'BAD_CONFIG', message: expect.stringContaining('"wrong"') }),
      );
    }
  });

  test.each<[string, unknown]>([
    ['a Map', new Map()],
    ['NaN inside', { a: [NaN] }],
    ['undefined inside', { a: undefined }],
    ['nothing', undefined],
  ])('cannot have %s for a state: checkpoints are JSON', async (_, state) => {
    const bound = definitionOf('odd', { score: () => 1, observe: () => state }).bind({});
    await expect(async () => bound.observe(null, viewOf(null))).rejects.toThrow('plain JSON');
  });
});

describe('an object that scores a group at once', () => {
  const ranked = (values: readonly number[] | Promise<readonly number[]>) => {
    let calls = 0;
    const bound = definitionOf('ranked', { scoreGroup: () => (calls++, values) }).bind({});
    const scores = (state: unknown = null) =>
      Promise.allSettled(own.rollouts.map(async (one) => (await bound.score(one, viewOf(state))).value));
    return { scores, calls: () => calls };
  };
  const valuesOf = (settled: PromiseSettledResult<number>[]) =>
    settled.map((one) => (one.status === 'fulfilled' ? one.value : String(one.reason)));

  test('is called once per group and state, and each completion gets its own number', async () => {
    const { scores, calls } = ranked(Promise.resolve([5, 6, 7]));
    expect(valuesOf(await scores())).toEqual([5, 6, 7]);
    await scores();
    expect(calls()).toBe(1);
    await scores({ moved: true });
    expect(calls()).toBe(2);
  });

  test('with too few numbers, only the completions without one fail', async () => {
    const message = 'Error: it returned 2 rewards for the 3 completions of its group';
    expect(valuesOf(await ranked([5, 6]).scores())).toEqual([5, 6, message]);
  });

  test.each<[string, unknown, string]>([
    ['too many numbers', [1, 2, 3, 4], '4 rewards'],
    ['no list', 3, 'no list of rewards'],
  ])('with %s nobody gets one', async (_, values, found) => {
    const settled = valuesOf(await ranked(values as number[]).scores());
    const message = `Error: it returned ${found} for the 3 completions of its group`;
    expect(settled).toEqual([message, message, message]);
  });
});
