/** A reward from a user's file, in its own thread. */
import { checkName } from '../../base/border';
import type { BoundReward, ObserveView, RewardScore, RewardView } from '../../rewards/types';
import type { Group, Rollout } from '../../base/types';
import { openModuleThread, type ModuleThread, type ThreadSetup } from './module-thread';

export interface RewardSetup extends ThreadSetup {
  params: Readonly<Record<string, unknown>>;
  maxLength: number;
}

export type ToReward =
  /** What the calls after it are about. */
  | ({ type: 'batch'; state: unknown } & ObserveView)
  | { type: 'score'; group: number; rollout: number }
  | { type: 'observe' };

interface Observed {
  state: unknown;
  metrics: Record<string, number>;
  snapshot: Record<string, number | null>;
}

const NOTHING: Observed = { state: undefined, metrics: {}, snapshot: {} };

class ModuleReward implements BoundReward {
  readonly keepsTime = true;
  /** What the thread already has, so that a batch is copied to it only once. */
  private sent: { batch: readonly Group[]; state: unknown } | null = null;
  private latest = NOTHING;

  constructor(
    readonly name: string,
    private readonly thread: ModuleThread<ToReward>,
    private readonly first: unknown,
  ) {}

  initialState(): unknown {
    return structuredClone(this.first);
  }

  score(rollout: Rollout, view: RewardView<unknown>): Promise<RewardScore> {
    this.send(view, view.state);
    const group = view.batch.indexOf(view.group);
    const place = { group, rollout: view.group.rollouts.indexOf(rollout) };
    return this.thread.call({ type: 'score', ...place }) as Promise<RewardScore>;
  }

  async observe(state: unknown, view: ObserveView): Promise<unknown> {
    this.send(view, state);
    this.latest = (await this.thread.call({ type: 'observe' })) as Observed;
    return this.latest.state;
  }

  /** Known only for the state that the last `observe` returned. */
  metrics(state: unknown): Record<string, number> {
    return state === this.latest.state ? this.latest.metrics : {};
  }

  snapshot(state: unknown): Record<string, number | null> {
    return state === this.latest.state ? this.latest.snapshot : {};
  }

  close(): Promise<void> {
    return this.thread.close('reward');
  }

  private send({ batch, step, maxLength }: ObserveView, state: unknown): void {
    if (this.sent?.batch === batch && this.sent.state === state) return;
    this.thread.post({ type: 'batch', batch, step, maxLength, state });
    this.sent = { batch, state };
  }
}

/**
 * The reward in `setup.path`, whose default export is what `registerReward` takes.
 * @param timeoutMs for each call
 * @throws BAD_CONFIG when it cannot be loaded or rejects its parameters
 */
export async function openRewardModule(
  setup: RewardSetup,
  timeoutMs: number,
  loadTimeoutMs?: number,
  signal?: AbortSignal,
): Promise<BoundReward> {
  checkName('reward', setup.name);
  const options = { timeoutMs, loadTimeoutMs, signal };
  const { thread, first } = await openModuleThread<ToReward>('reward', 'reward-worker.js', setup, options);
  return new ModuleReward(setup.name, thread, first);
}
