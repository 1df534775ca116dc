/** The thread of a reward in `rewardModules`: answers calls of `reward-module.ts`. */
import { workerData } from 'node:worker_threads';
import type { BoundReward } from '../../rewards';
import { definitionOf } from '../../rewards/user';
import type { Group } from '../../base/types';
import { importDefault } from './import-default';
import { serveCalls, type Host } from './module-host';
import type { RewardSetup, ToReward } from './reward-module';

const { name, path, params, maxLength } = workerData as RewardSetup;

interface Batch {
  groups: readonly Group[];
  step: number;
  maxLength: number;
  state: unknown;
}

class RewardHost implements Host<ToReward> {
  readonly first: unknown;
  private batch: Batch = { groups: [], step: 0, maxLength: 0, state: null };

  constructor(private readonly reward: BoundReward) {
    this.first = reward.initialState({ maxLength });
  }

  take(batch: Batch): void {
    this.batch = batch;
  }

  async answer(call: Exclude<ToReward, { type: 'batch' }>): Promise<unknown> {
    const { groups, step, maxLength, state } = this.batch;
    if (call.type === 'observe') {
      const next = await this.reward.observe(state, { step, maxLength, batch: groups });
      return {
        state: next,
        metrics: this.reward.metrics(next),
        snapshot: this.reward.snapshot?.(next) ?? {},
      };
    }
    const group = groups[call.group]!;
    const { value, parts } = await this.reward.score(group.rollouts[call.rollout]!, {
      step,
      maxLength,
      group,
      batch: groups,
      state,
    });
    return { value, ...(parts && { parts }) };
  }
}

void serveCalls<ToReward>(async () => {
  const found = await importDefault(path);
  return new RewardHost(definitionOf(name, found as never).bind(params));
});
