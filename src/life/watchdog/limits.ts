/** How long a phase may go without a sign of progress. */
import type { Config, Phase } from '../../config';
import { minimum } from '../../base/statistics';

/** What the duration of a phase depends on besides the configuration. */
export interface ModelSize {
  parameters: number;
  layers: number;
  /** Positions of the model: no sequence is longer. */
  maxPositions: number;
  cuda: boolean;
  /** The sampler of rollouts reports tokens as they are added, as the engine's does. */
  samplerReports: boolean;
}

/**
 * The longest silence to expect of a phase, in milliseconds; 0: nothing is known of it.
 * @param model null: none is loaded yet
 */
export type Silences = (phase: Phase, model: ModelSize | null) => number;

export type WatchdogSettings = Pick<Config, 'watchdogMs' | 'watchdogPhaseMs' | 'onHang'>;

/** A silence is abnormal at this many times the longest one of the same phase so far. */
const FACTOR = 20;
/** Allows for reading weights from a slow disk or network. */
const LOADING_MS = 3_600_000;

/** Rates that any machine worth training on exceeds several times over. */
const SLOWEST = {
  cpu: { bytesPerMs: 1e6, flopsPerMs: 1e7 },
  cuda: { bytesPerMs: 2e7, flopsPerMs: 1e9 },
} as const;

export const slowest = ({ cuda }: ModelSize) => SLOWEST[cuda ? 'cuda' : 'cpu'];

/** A pass of training over `tokens`: 8 FLOPs per parameter and token (forward, recomputed forward, backward by activations). */
export const passMs = (model: ModelSize, tokens: number): number =>
  (8 * model.parameters * tokens) / slowest(model).flopsPerMs;

/** Phases that are the same in every kind of run; null: another phase. */
export function commonSilence(phase: Phase, { sinkTimeoutMs }: Pick<Config, 'sinkTimeoutMs'>): number | null {
  if (phase === 'loading') return LOADING_MS;
  return phase === 'sink' ? 2 * sinkTimeoutMs : null;
}

/**
 * In milliseconds; null: the phase is not watched.
 * @param expectedMs the longest silence to expect
 * @param longestMs the longest silence of this phase so far
 */
export function phaseLimitMs(
  phase: Phase,
  { watchdogMs, watchdogPhaseMs }: Omit<WatchdogSettings, 'onHang'>,
  expectedMs: number,
  longestMs: number,
): number | null {
  const given = watchdogPhaseMs[phase];
  if (given !== undefined || watchdogMs === null) return given ?? null;
  return Math.max(watchdogMs, expectedMs, FACTOR * longestMs);
}

/** Milliseconds between checks: a fifth of the shortest limit, 5 ms to 1 s. null: nothing is watched. */
export function tickMs({ watchdogMs, watchdogPhaseMs }: Omit<WatchdogSettings, 'onHang'>): number | null {
  const limits = [watchdogMs, ...Object.values(watchdogPhaseMs)].filter((limit) => typeof limit === 'number');
  return limits.length === 0 ? null : Math.max(5, Math.min(1_000, minimum(limits.map((limit) => limit / 5))));
}
