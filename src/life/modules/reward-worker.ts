/** The thread of a reward in `rewardModules`: answers calls of `reward-module.ts`. */
import { workerData } from 'node:worker_threads';
import { definitionOf } from '../../rewards/user';
import { importDefault } from './import-default';
import { serveCalls } from './module-host';
import type { RewardSetup, ToReward } from './reward-module';

const { name, path, params, maxLength } = workerData as RewardSetup;

void serveCalls<ToReward>(async () => {
  const reward = definitionOf(name, (await importDefault(path)) as never).bind(params);
  let current: ToReward & { type: 'batch' };
  return {
    first: reward.initialState({ maxLength }),
    async answer(message) {
      if (message.type === 'batch') {
        current = message;
        return undefined;
      }
      const { type: _type, state, ...view } = current;
      if (message.type === 'observe') {
        const next = await reward.observe(state, view);
        return { state: next, metrics: reward.metrics(next), snapshot: reward.snapshot?.(next) ?? {} };
      }
      const group = view.batch[message.group]!;
      const rollout = group.rollouts[message.rollout]!;
      const { value, parts, columns, metrics } = await reward.score(rollout, { ...view, group, state });
      return {
        value,
        ...(parts && { parts }),
        ...(columns && { columns }),
        ...(metrics && { metrics }),
      };
    },
  };
});
