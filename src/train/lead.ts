/**
 * How the processes of a run go through it together. Rank 0 has the run: its folder, its evaluations, what follows from a
 * step. Before each thing that all do it says which; the others do what it says (`follower.ts`), and within a step all
 * are equal.
 */
import { mkdtemp, rm, writeFile, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AcoerError, errorCode, errorMessage, type AcoerErrorCode } from '../base/errors';
import { openRegularFile, sha256Of } from '../base/regular-file';
import type { Policy } from '../engine/types';
import type { LoopContext, LoopControl, LoopPosition } from '../grpo/context';
import { trainSteps } from '../grpo/loop';
import type { LoopStep } from '../grpo/step';
import type { EvalPhase, RunSummary } from '../life/events';
import type { Ranks } from '../ranks';

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

const PART_BYTES = 1 << 24;

async function withFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'acoer-rank-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function partOf(file: FileHandle, at: number): Promise<Uint8Array> {
  const part = Buffer.alloc(PART_BYTES);
  const { bytesRead } = await file.read(part, 0, PART_BYTES, at);
  return part.subarray(0, bytesRead);
}

/** A file of rank 0 becomes one of every rank, at `path` on each. */
async function shareFile(ranks: Ranks, path: string): Promise<void> {
  const source = ranks.rank === 0 ? (await openRegularFile(path)).file : null;
  try {
    if (source === null) await writeFile(path, '');
    for (let at = 0; ; at += PART_BYTES) {
      const part = await ranks.fromFirst('the weights', () => partOf(source!, at));
      if (source === null) await writeFile(path, part, { flag: 'a' });
      if (part.length < PART_BYTES) return;
    }
  } finally {
    await source?.close();
  }
}

/** Every rank's policy becomes that of rank 0, to the bit, with the state of its optimiser. */
export function shareWeights(ranks: Ranks, policy: Policy): Promise<void> {
  return withFolder(async (folder) => {
    const [weights, optimizer] = [join(folder, 'weights'), join(folder, 'optimizer')];
    if (ranks.rank === 0) {
      await policy.save(weights);
      await policy.saveOptimizer(optimizer);
    }
    await shareFile(ranks, weights);
    await shareFile(ranks, optimizer);
    if (ranks.rank === 0) return;
    await policy.restore(weights);
    await policy.restoreOptimizer(optimizer);
  });
}

async function fileHash(path: string): Promise<string> {
  const { file } = await openRegularFile(path);
  try {
    return await sha256Of(file);
  } finally {
    await file.close();
  }
}

/** @throws RANKS_DIVERGED naming the first rank whose weights are not those of rank 0 */
export async function compareWeights(ranks: Ranks, policy: Policy, step: number): Promise<void> {
  const all = await ranks.gather('the comparison of the weights', () =>
    withFolder(async (folder) => {
      const path = join(folder, 'weights');
      await policy.save(path);
      return fileHash(path);
    }),
  );
  const other = all.findIndex((hash) => hash !== all[0]);
  if (other === -1) return;
  throw new AcoerError(
    'RANKS_DIVERGED',
    `After step ${step} rank ${other} has other weights than rank 0, which cannot happen on equal processors and libraries: the run ends; --resume gives every rank those of rank 0 again.`,
  );
}

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
