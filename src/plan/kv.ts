/** Room for keys and values, as native/core/generate_plan.cpp and generate_admission.cpp give it out. */
import { kvBytesPerToken, type ModelShape } from './cost';
import type { PlannedWork } from './workload';

/** The cache's unit of positions, and the tokens of prompts prefilled together. */
const TILE = 16;
const PREFILL_TOKENS = 2048;
/**
 * What the engine takes of the free memory for the cache without `kvBytes`: other programs share a machine's memory,
 * and a GPU's is the run's own.
 */
export const KV_SHARE = { cpu: 1 / 4, cuda: 3 / 4 } as const;
export const KV_SHARE_TEXT = { cpu: 'a quarter', cuda: 'three quarters' } as const;

const rounded = (positions: number): number => Math.ceil(positions / TILE) * TILE;

export interface KvPlan {
  /** Limit on the cache. */
  budgetBytes: number;
  bytesPerToken: number;
  /** Sequences of full length that fit, no more than `maxSlots`; 0: not even one, the engine refuses. */
  slots: number;
  /** Of one sequence of full length. */
  slotBytes: number;
  /** Prompts prefilled and waiting, kept beside the slots. */
  heldBytes: number;
  /** Taken by the sequences of one batch. */
  usedBytes: number;
  /** Limit at which every sequence of a batch (up to `maxSlots`) has a slot. */
  fullBudgetBytes: number;
}

export function planKv(
  shape: ModelShape,
  bytesPerElement: number,
  work: Pick<PlannedWork, 'promptTokens' | 'maxNewTokens' | 'prompts' | 'group' | 'maxSlots'>,
  budgetBytes: number,
): KvPlan {
  const bytesPerToken = kvBytesPerToken(shape, bytesPerElement);
  const longest = rounded(work.promptTokens + work.maxNewTokens - 1);
  const prompt = rounded(work.promptTokens - 1);
  const budget = Math.floor(budgetBytes / bytesPerToken);
  const wanted = Math.min(work.maxSlots, work.prompts * work.group);
  // A prompt is prefilled with others while its first sample has a slot.
  const together = (limit: number): number => {
    let held = 0;
    while (held < work.prompts && (held === 0 || (held + 1) * work.promptTokens <= PREFILL_TOKENS)) {
      const live = held * work.group + 1;
      if (live > work.maxSlots || live * longest + (held + 1) * prompt > limit) break;
      held++;
    }
    return held;
  };
  const held = together(budget) * prompt;
  const slots = Math.max(0, Math.min(wanted, Math.floor((budget - held) / longest)));
  const full = wanted * longest + together(Infinity) * prompt;
  return {
    budgetBytes,
    bytesPerToken,
    slots: held === 0 && prompt > 0 ? 0 : slots,
    slotBytes: longest * bytesPerToken,
    heldBytes: held * bytesPerToken,
    usedBytes: (slots * longest + held) * bytesPerToken,
    fullBudgetBytes: full * bytesPerToken,
  };
}
