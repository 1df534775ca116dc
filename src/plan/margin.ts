/** How far a plan is from what is available, in words. */
import { maximum } from '../base/statistics';
import { gigabytes } from '../base/text';
import { fits } from './advice';
import type { PlanDevice } from './devices';
import type { MemoryPlan } from './memory';

/** A plan that leaves less of its peak than this is tight: on a CPU measured peaks were within it (docs/plan.md). */
const TIGHT_SHARE = 0.15;

export interface Margin {
  grade: 'roomy' | 'tight' | 'short';
  /** Left over, or, where it is short, missing. */
  bytes: number;
}

export function marginOf(memory: MemoryPlan, { freeBytes }: Pick<PlanDevice, 'freeBytes'>): Margin {
  const { peakBytes, kv, evaluationKv } = memory;
  const spare = freeBytes - peakBytes;
  if (!fits(memory, freeBytes)) {
    const cache = [kv, evaluationKv].map((one) => (one?.slots === 0 ? one.slotBytes - one.budgetBytes : 0));
    return { grade: 'short', bytes: maximum([-spare, ...cache]) };
  }
  return { grade: spare < TIGHT_SHARE * peakBytes ? 'tight' : 'roomy', bytes: spare };
}

/** In a few words, as in a table. */
export function marginWords({ grade, bytes }: Margin): string {
  if (grade === 'short') return `${gigabytes(bytes, 1)} short`;
  return `${grade === 'tight' ? 'tight, ' : ''}${gigabytes(bytes, 1)} to spare`;
}

/** What to do about a margin; null: nothing. */
export const marginCaution = ({ grade }: Margin, kind: PlanDevice['kind']): string | null =>
  grade === 'tight'
    ? `That is tight: close other programs${kind === 'cuda' ? ' (a desktop takes up to 1 GB of a card)' : ''}; measured peaks were up to 15% off.`
    : null;
