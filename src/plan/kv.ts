/** Memory for keys and values, as plan.cpp and admission.cpp of native/core/generate allocate it. */
import { kvBytesPerToken, type ModelShape } from './cost';
import type { PlannedWork } from './workload';

/** The cache's allocation unit in positions, and the most prompt tokens prefilled together. */
const TILE = 16;
export const PREFILL_TOKENS = 2048;
/**
 * Fraction of the free memory the engine uses for the cache without `kvBytes`: a machine's memory is shared
 * with other programs, a GPU's belongs to the run.
 */
export const KV_SHARE = { cpu: 1 / 4, cuda: 3 / 4 } as const;
export const KV_SHARE_TEXT = { cpu: 'a quarter', cuda: 'three quarters' } as const;

const rounded = (positions: number): number => Math.ceil(positions / TILE) * TILE;

export interface KvPlan {
  /** Limit on the cache size. */
  budgetBytes: number;
  bytesPerToken: number;
  /** Full-length sequences that fit, at most `maxSlots`; 0: not even one, and the engine fails. */
  slots: number;
  /** Those that a batch has, at most `maxSlots`. */
  wantedSlots: number;
  /** Size of one full-length sequence. */
  slotBytes: number;
  /** Prefilled prompts waiting for a slot, held in addition to the slots. */
  heldBytes: number;
  /** Used by the sequences of one batch. */
  usedBytes: number;
  /** Limit at which every sequence of a batch (up to `maxSlots`) gets a slot. */
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
  // A prompt is prefilled together with others once its first sample has a slot.
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
    wantedSlots: wanted,
    slotBytes: longest * bytesPerToken,
    heldBytes: held * bytesPerToken,
    usedBytes: (slots * longest + held) * bytesPerToken,
    fullBudgetBytes: full * bytesPerToken,
  };
}
