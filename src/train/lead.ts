/**
 * How the processes of a run go through it together. Rank 0 has the run: its folder, its evaluations, what follows from a
 * step. Before each thing that all do it says which; the others do what it says (`follower.ts`), and within a step all
 * are equal.
 */
import { AcoerError, errorCode, errorMessage, type AcoerErrorCode } from '../base/errors';
import type { Moment } from '../engine/types';
import type { LoopContext, LoopControl, LoopPosition } from '../grpo/context';
import { trainSteps } from '../grpo/loop';
import type { LoopStep } from '../grpo/step';
import type { EvalPhase, RunSummary } from '../life/events';
import type { Ranks } from '../ranks';
import { gatherMoment, isSharded, MOMENTS } from '../ranks/shards';
import { compareWeights, shareWeights } from '../ranks/weights';
import { openSampler } from '../sampling';
import { optimizerFile, type StoredCheckpoint, type StoredPolicy } from '../run';

/** What all ranks do next. */
export type Order =
  /** Take the weights of rank 0, and the moments of its optimiser if it has made a step. */
  | { do: 'share'; moments: boolean }
  /** Let the sampler open what it works with. */
  | { do: 'open' }
  /** Begin the loop, or begin it again elsewhere. */
  | { do: 'start'; position: LoopPosition }
  | { do: 'step' }
  | { do: 'evaluate'; phase: EvalPhase }
  /** Compare the weights. */
  | { do: 'compare'; step: number }
  /** Gather the shards of a moment, which rank 0 then stores. */
  | { do: 'gather'; moment: Moment }
  | { do: 'end'; summary: RunSummary }
  | { do: 'fail'; error: { code: AcoerErrorCode; message: string } };

/** Every rank learns what comes next. @param order on rank 0 */
export const nextOrder = (ranks: Ranks, order?: Order): Promise<Order> =>
  ranks.fromFirst('what comes next', () => Promise.resolve(order!));

/** The samplers of all ranks open together, so that all know when one of them fails. */
export async function openSamplers({ ranks, sampler }: LoopContext, signal: AbortSignal): Promise<void> {
  await ranks.gather('opening the sampler', () => openSampler(sampler, signal));
}

/** Rank 0's part. With a single rank it does nothing. */
export class Lead {
  private inner: AsyncGenerator<LoopStep, void> | null = null;
  private summary: RunSummary | null = null;

  /** @param part takes leave of the processes, with the error if there is one */
  constructor(
    private readonly loop: LoopContext,
    private readonly part: ((error: unknown) => Promise<void>) | null,
  ) {}

  /** The steps from `position`, each begun when all ranks know of it. */
  async *steps(position: LoopPosition, control: LoopControl): AsyncGenerator<LoopStep, void> {
    if (this.part === null) {
      yield* trainSteps(this.loop, position, control);
      return;
    }
    const { ranks } = this.loop;
    await nextOrder(ranks, {
      do: 'start',
      position: { loop: position.loop, open: position.open, inFlight: [] },
    });
    const steps = (this.inner = trainSteps(this.loop, position, control));
    for (;;) {
      await nextOrder(ranks, { do: 'step' });
      const made = await steps.next();
      if (made.done === true) return;
      yield made.value;
    }
  }

  /** All ranks begin an evaluation. */
  async evaluate(phase: EvalPhase): Promise<void> {
    if (this.part !== null) await nextOrder(this.loop.ranks, { do: 'evaluate', phase });
  }

  /** Every rank gets the weights that this one has restored. @param restored null: none, they are those of the beginning */
  async share(restored: StoredCheckpoint | null): Promise<void> {
    if (this.part === null) return;
    const { ranks, policy } = this.loop;
    const optimizer = restored === null ? null : optimizerFile(restored);
    await nextOrder(ranks, { do: 'share', moments: optimizer !== null });
    await this.inner?.return();
    await shareWeights(ranks, policy, optimizer !== null, optimizer ?? undefined);
  }

  /** Every rank's sampler opens. */
  async open(signal: AbortSignal): Promise<void> {
    if (this.part !== null) await nextOrder(this.loop.ranks, { do: 'open' });
    await openSamplers(this.loop, signal);
  }

  /** What checkpoints hold of the policy: of the moments what all ranks have. */
  get stored(): StoredPolicy {
    const { policy } = this.loop;
    if (!isSharded(policy)) return policy;
    return {
      save: (path, dtype) => policy.save(path, dtype),
      saveOptimizer: (path) => this.saveShards(path),
    };
  }

  private async saveShards(path: string): Promise<void> {
    const { ranks, policy } = this.loop;
    if (ranks.parted)
      throw new AcoerError(
        'RANK_LOST',
        "The other ranks have gone, each with its part of the optimiser's moments; the run resumes from its newest checkpoint.",
      );
    for (const moment of MOMENTS) {
      await nextOrder(ranks, { do: 'gather', moment });
      await gatherMoment(ranks, policy, moment, () => policy.saveMoment(path, moment));
    }
  }

  /** The weights of all ranks are the same, as they should be. @throws RANKS_DIVERGED */
  async compare(step: number): Promise<void> {
    if (this.part === null) return;
    const { ranks, policy } = this.loop;
    await nextOrder(ranks, { do: 'compare', step });
    await compareWeights(ranks, policy, step);
  }

  finished(summary: RunSummary): void {
    this.summary = summary;
  }

  /** The last word. @param error none: the run has ended, or was left */
  async end(error: unknown): Promise<void> {
    if (this.part === null) return;
    let failure = error;
    try {
      await nextOrder(this.loop.ranks, this.lastOrder(error));
      await this.inner?.return();
    } catch (unheard) {
      // They know of an error of their own, or one of them is lost.
      failure ??= unheard;
    }
    await this.part(this.summary === null ? failure : undefined);
  }

  private lastOrder(error: unknown): Order {
    if (this.summary !== null) return { do: 'end', summary: this.summary };
    const code =
      (errorCode(error) as AcoerErrorCode | undefined) ?? (error === undefined ? 'INTERRUPTED' : 'INTERNAL');
    return {
      do: 'fail',
      error: { code, message: error === undefined ? 'The run was left.' : errorMessage(error) },
    };
  }
}
