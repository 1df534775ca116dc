/** What a reward or loss of the user cannot do to a run: take its columns, change its data, hide an overflow. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findLoss } from '../../src/losses/registry';
import { registerLoss } from '../../src/losses';
import { registerReward } from '../../src/rewards/registry';
import type { RewardDefinition } from '../../src/rewards/types';
import type { UserReward, UserRollout } from '../../src/rewards/user';
import { train, type TrainEvent } from '../../src/train';
import { fakeRun, metricsOf, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

const run = async (given: Given) => (await train(...asCall(given))).result();
const quick = (more: Given) =>
  fakeRun({ maxSteps: 3, evalProblems: 0, saveSteps: 0, completionsSteps: 1, tensorboard: false, ...more });

const withMetrics = (metrics: () => Record<string, number>): UserReward => ({
  score: ({ correct }) => (correct ? 1 : 0),
  metrics,
});

describe('metrics of a reward', () => {
  test.each([
    'step', 'loss', 'learning_rate', 'reward', 'epoch', 'step_time', 'update_applied', 'eval/greedy_accuracy',
    'monitor/state', 'clip_ratio/low_mean', 'rewards/other/mean', 'sampling/sampling_logp_difference/max',
  ])('named %s: refused before anything is written', async (name) => {
    registerReward('greedy-names', withMetrics(() => ({ 'mine/a': 1, [name]: 5 })));
    const given = quick({ reward: 'greedy-names' });
    await expect(run(given)).rejects.toMatchObject({
      code: 'REWARD_FAILED',
      message: `The metrics of reward "greedy-names" name "${name}", which the run writes itself; choose another name, such as "greedy-names/${name}".`,
    });
    expect(readFileSync(join(given.out, 'metrics.jsonl'), 'utf8')).toBe('');
    expect(readdirSync(join(given.out, 'completions'))).toEqual([]);
  }); // prettier-ignore

  test('its own names, and those for the state of rewards', async () => {
    registerReward('own-names', withMetrics(() => ({ 'mine/a': 1, 'acoer/alpha': 0.5 })));
    const given = quick({ reward: 'own-names' });
    await run(given);
    expect(metricsOf(given.out)).toEqual(Array(3).fill(expect.objectContaining({ 'mine/a': 1, 'acoer/alpha': 0.5 })));
  }); // prettier-ignore

  test('two rewards cannot write the same number', async () => {
    for (const name of ['twin-a', 'twin-b'])
      registerReward(
        name,
        withMetrics(() => ({ shared: 1 })),
      );
    const reward = ['twin-a', 'twin-b'].map((name) => ({ name }));
    await expect(run(quick({ reward }))).rejects.toThrow(
      'The metrics of reward "twin-b" name "shared", which the line already has; choose another name, such as "twin-b/shared".',
    );
  });

  test('that throw name the reward', async () => {
    const metrics = () => {
      throw new Error('no numbers today');
    };
    registerReward('throwing-metrics', withMetrics(metrics));
    await expect(run(quick({ reward: 'throwing-metrics' }))).rejects.toMatchObject({
      code: 'REWARD_FAILED',
      message: 'The metrics of reward "throwing-metrics" could not be made: no numbers today',
    });
  });
});

test.each(['step', 'loss', 'grad_norm', 'acoer/alpha'])('a loss cannot write %s', async (name) => {
  registerLoss({ ...findLoss('grpo')!, name: 'greedy-loss', metrics: () => ({ [name]: 5 }) });
  await expect(run(quick({ lossType: 'greedy-loss', reward: 'acc' }))).rejects.toMatchObject({
    code: 'BAD_CONFIG',
    message: expect.stringContaining(`The metrics of loss "greedy-loss" name "${name}"`) as string,
  });
});

describe('a reward that writes into what it is given', () => {
  const spoil = (rollout: UserRollout) => {
    const value = rollout.verdict.correct ? 1 : 0;
    rollout.verdict.correct = !rollout.verdict.correct;
    rollout.ids.fill(0);
    rollout.logprobs.fill(NaN);
    rollout.entropies!.fill(NaN);
    rollout.prompt.ids.fill(0);
    rollout.prompt.problem.gold = 'changed';
    Object.assign(rollout, { totalTokens: 1, thinkingTokens: 1, format: true, finish: 'stop', text: '' });
    return value;
  };
  const definition: RewardDefinition = {
    ...({ name: 'x', summary: '', formula: '', source: '', defaults: {} } as const),
    bind: () => ({
      name: 'spoils-definition',
      initialState: () => null,
      observe: (_, { batch }) => {
        batch.flatMap(({ rollouts }) => rollouts).forEach((rollout) => spoil(rollout as UserRollout));
        return null;
      },
      score: (rollout) => ({ value: spoil(rollout as UserRollout) }),
      metrics: () => ({}),
    }),
  };
  const ways: Record<string, Parameters<typeof registerReward>[1]> = {
    'spoils-function': spoil,
    'spoils-object': { score: spoil, observe: (_, { batch }) => (batch[0]!.rollouts.forEach(spoil), null) },
    'spoils-definition': definition,
  };

  test.each(Object.keys(ways))('%s changes nothing of the run', async (name) => {
    registerReward(name, ways[name]!);
    const whole = quick({ reward: 'acc' });
    await run(whole);
    const spoilt = quick({ reward: [{ name }, { name: 'acc', weight: 0 }] });
    await run(spoilt);
    const shared = ({ out }: { out: string }) =>
      metricsOf(out).map((line) => Object.fromEntries(Object.entries(line).filter(([key]) => !key.startsWith('rewards/')))); // prettier-ignore
    expect(shared(spoilt)).toEqual(shared(whole));
  });
});

test.each([1e308, -1e308, 1e200])(
  'rewards of %d overflow: the step is refused, in one sentence',
  async (large) => {
    registerReward('huge', ({ correct, sample }) => (correct ? large : sample));
    const events: TrainEvent[] = [];
    const given = quick({ reward: 'huge', onEvent: (event) => void events.push(event) });
    await run(given);
    const warnings = events.flatMap((event) => (event.type === 'warning' ? [event.message] : []));
    expect(warnings).toContainEqual(expect.stringMatching(/the advantage for a reward of .* is not finite at prompt \d+, sample \d/)); // prettier-ignore
    expect(metricsOf(given.out)[0]).toMatchObject({ update_applied: 0 });
    expect(existsSync(join(given.out, 'non-finite'))).toBe(true);
  },
);
