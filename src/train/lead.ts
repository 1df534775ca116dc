/**
 * How the processes of a run go through it together. Rank 0 has the run: its folder, its evaluations, what follows from a
 * step. Before each thing that all do it says which; the others do what it says (`follower.ts`), and within a step all
 * are equal.
 */
import { errorCode, errorMessage, type AcoerErrorCode } from '../base/errors';
import type { LoopContext, LoopControl, LoopPosition } from '../grpo/context';
import { trainSteps } from '../grpo/loop';
import type { LoopStep } from '../grpo/step';
import type { EvalPhase, RunSummary } from '../life/events';
import type { Ranks } from '../ranks';
import { compareWeights, shareWeights } from '../ranks/weights';

/** What all ranks do next. */
export type Order =
  /** Begin the loop, or begin it again elsewhere, with the weights of rank 0. */
  | { do: 'start'; position: LoopPosition }
  | { do: 'step' }
  /** Evaluate. `weights`: with those of rank 0, which the others do not have yet. */
  | { do: 'evaluate'; phase: EvalPhase; weights: boolean }
  /** Compare the weights. */
  | { do: 'compare'; step: number }
  | { do: 'end'; summary: RunSummary }
  | { do: 'fail'; error: { code: AcoerErrorCode; message: string } };

/** Every rank learns what comes next. @param order on rank 0 */
export const nextOrder = (ranks: Ranks, order?: Order): Promise<Order> =>
  ranks.fromFirst('what comes next', () => Promise.resolve(order!));

/** Rank 0's part. With a single rank it does nothing. */
export class Lead {
  private inner: AsyncGenerator<LoopStep, void> | null = null;
  private summary: RunSummary | null = null;
  /** The others have the weights of this rank. */
  private alike = false;

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
    await nextOrder(ranks, { do: 'start', position: { loop: position.loop, open: position.open } });
    await this.inner?.return();
    await this.share();
    const steps = (this.inner = trainSteps(this.loop, position, control));
    for (;;) {
      await nextOrder(ranks, { do: 'step' });
      const made = await steps.next();
      if (made.done === true) return;
      yield made.value;
    }
  }

  private async share(): Promise<void> {
    await shareWeights(this.loop.ranks, this.loop.policy);
    this.alike = true;
  }

  /** This rank has the weights of a checkpoint again, and no other has. */
  restored(): void {
    this.alike = false;
  }

  /** All ranks begin an evaluation; one of what is trained is of the same weights on each. */
  async evaluate(phase: EvalPhase): Promise<void> {
    if (this.part === null) return;
    const weights = phase !== 'base' && !this.alike;
    await nextOrder(this.loop.ranks, { do: 'evaluate', phase, weights });
    if (weights) await this.share();
  }

  /** The weights of all ranks are the same, as they should be. @throws RANKS_DIVERGED */
  async compare(step: number): Promise<void> {
    // A fork is saved before the others have its weights.
    if (this.part === null || !this.alike) return;
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
