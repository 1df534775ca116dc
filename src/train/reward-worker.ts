/** The thread of a reward in `rewardModules`: loads the module and answers calls of `reward-module.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import { errorMessage } from '../errors';
import type { BoundReward } from '../rewards';
import { definitionOf } from '../rewards/user';
import type { Group } from '../types';
import { importDefault } from './import-default';
import type { FromWorker, ToWorker, WorkerSetup } from './reward-module';

const setup = workerData as WorkerSetup;
const port = parentPort!;
const post = (message: FromWorker) => port.postMessage(message);

async function loadReward(): Promise<BoundReward> {
  const found = await importDefault(setup.path);
  return definitionOf(setup.name, found as never).bind(setup.params);
}

interface Batch {
  groups: readonly Group[];
  step: number;
  maxLength: number;
  state: unknown;
}

class Host {
  private batch: Batch = { groups: [], step: 0, maxLength: 0, state: null };

  constructor(private readonly reward: BoundReward) {}

  readonly take = (message: ToWorker): void => {
    if (message.type === 'batch') this.batch = message;
    else void this.answer(message);
  };

  /** Posts `running` before the user's code runs, and `waiting` once it has returned a promise. */
  private async answer(message: Exclude<ToWorker, { type: 'batch' }>): Promise<void> {
    const { id } = message;
    try {
      post({ type: 'running', id });
      const work = this.call(message);
      post({ type: 'waiting', id });
      post({ type: 'done', id, value: await work });
    } catch (error) {
      post({ type: 'failed', id, message: errorMessage(error) });
    }
  }

  private async call(message: Exclude<ToWorker, { type: 'batch' }>): Promise<unknown> {
    const { groups, step, maxLength, state } = this.batch;
    if (message.type === 'observe') {
      const next = await this.reward.observe(state, { step, maxLength, batch: groups });
      return {
        state: next,
        metrics: this.reward.metrics(next),
        snapshot: this.reward.snapshot?.(next) ?? {},
      };
    }
    const group = groups[message.group]!;
    const { value, parts } = await this.reward.score(group.rollouts[message.rollout]!, {
      step,
      maxLength,
      group,
      batch: groups,
      state,
    });
    return { value, ...(parts && { parts }) };
  }
}

async function start(): Promise<void> {
  try {
    const reward = await loadReward();
    const host = new Host(reward);
    port.on('message', host.take);
    post({ type: 'ready', initialState: reward.initialState({ maxLength: setup.maxLength }) });
  } catch (error) {
    post({ type: 'unloadable', message: errorMessage(error) });
  }
}

void start();
