/** Memory for keys and values, as plan.cpp, admission.cpp and kv_pages.cpp of native/core/generate allocate it. */
import { sum } from '../base/statistics';
import { kvBytesPerToken, type DeviceKind, type ModelShape } from './cost';
import type { PlannedWork } from './workload';

/** The cache's allocation unit in positions, and the most prompt tokens prefilled together. */
const TILE = 16;
export const PREFILL_TOKENS = 2048;
/** plan.cpp: on a GPU one part in so many of the cache, or the longest prompt, is left to prefilled prompts. */
const PROMPT_SHARE = 32;
/** decode_ops.cpp: positions of a page of the cache, at most those of the longest sequence. */
const PAGE_POSITIONS = { cpu: 64, cuda: 256 } as const;
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
  /** Positions of a page; sequences take pages as they get there. */
  pagePositions: number;
  /** Pages that sequences may hold together. */
  pages: number;
  /** Pages of a full-length sequence. */
  fullPages: number;
  /** Most sequences at a time, at most `maxSlots`; 0: not even one of full length fits, and the engine fails. */
  slots: number;
  /** Those of full length. */
  fullSlots: number;
  /** Those that a batch has, at most `maxSlots`. */
  wantedSlots: number;
  /** Size of one full-length sequence. */
  slotBytes: number;
  /** Prefilled prompts waiting for a slot, held in addition to the slots. */
  heldBytes: number;
  /** Most that the sequences of one batch use. */
  usedBytes: number;
  /** Limit at which every sequence of a batch (up to `maxSlots`) gets a slot. */
  fullBudgetBytes: number;
}

export function planKv(
  shape: ModelShape,
  { bytesPerElement, kind }: { bytesPerElement: number; kind: DeviceKind },
  work: Pick<
    PlannedWork,
    | 'promptTokens'
    | 'maxNewTokens'
    | 'promptsInFlight'
    | 'prefillTokens'
    | 'group'
    | 'maxSlots'
    | 'kvCacheDtype'
  >,
  budgetBytes: number,
): KvPlan {
  const bytesPerToken = kvBytesPerToken(shape, bytesPerElement, work.kvCacheDtype);
  const longest = rounded(work.promptTokens + work.maxNewTokens - 1);
  const prompt = rounded(work.prefillTokens - 1);
  const budget = Math.floor(budgetBytes / bytesPerToken);
  const pagePositions = Math.min(longest, PAGE_POSITIONS[kind]);
  const fullPages = Math.ceil(longest / pagePositions);
  const full = fullPages * pagePositions;
  const wanted = Math.min(work.maxSlots, work.promptsInFlight * work.group);
  // A prompt is prefilled together with others if its first sample would get a slot.
  const together = Math.min(
    work.promptsInFlight,
    Math.max(1, Math.floor(PREFILL_TOKENS / work.promptTokens)),
    Math.ceil(work.maxSlots / work.group),
  );
  const mostHeld = Math.max(prompt, together * rounded(work.promptTokens - 1));
  const share = Math.min(PREFILL_TOKENS, Math.floor(budget / PROMPT_SHARE), budget - full);
  const held = Math.max(prompt, Math.min(mostHeld, kind === 'cuda' ? share : budget - full));
  const pages = Math.max(0, Math.floor((budget - held) / pagePositions));
  const fullSlots = Math.min(wanted, Math.floor(pages / fullPages));
  const used = Math.min(pages, wanted * fullPages) * pagePositions;
  return {
    budgetBytes,
    bytesPerToken,
    pagePositions,
    pages,
    fullPages,
    slots: fullSlots === 0 ? 0 : Math.min(wanted, pages),
    fullSlots,
    wantedSlots: wanted,
    slotBytes: full * bytesPerToken,
    heldBytes: held * bytesPerToken,
    usedBytes: (fullSlots === 0 ? held : used + held) * bytesPerToken,
    fullBudgetBytes: (wanted * full + mostHeld) * bytesPerToken,
  };
}

/** Sequences that enter and leave, as kv_pages.cpp admits them; waits for a page are not modelled. */
export class PageAdmission {
  private endedSequences = 0;
  private endedPages = 0;

  constructor(private readonly kv: Pick<KvPlan, 'pagePositions' | 'pages' | 'fullPages' | 'slots'>) {}

  /** @param live positions of each sequence that has a slot */
  admits(live: readonly number[], promptTokens: number): boolean {
    const { slots, pages, fullPages } = this.kv;
    if (live.length === 0) return true;
    if (live.length >= slots) return false;
    if ((live.length + 1) * fullPages <= pages) return true;
    const held = live.map((positions) => this.pagesFor(positions));
    const expected = (this.endedPages + sum(held)) / this.endedSequences;
    const length = Math.min(expected, fullPages);
    const all = [...held, this.pagesFor(promptTokens)];
    return sum(all.map((pagesOfOne) => Math.max(pagesOfOne, length))) <= pages;
  }

  ended(positions: number): void {
    this.endedSequences += 1;
    this.endedPages += this.pagesFor(positions);
  }

  private pagesFor(positions: number): number {
    return Math.ceil(positions / this.kv.pagePositions);
  }
}
