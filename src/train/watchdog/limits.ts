/** How long a phase may show no sign of progress. */
import type { Config, Phase } from '../../config';

/** What the length of a phase depends on; null while the model is not loaded. */
export interface ModelSize {
  parameters: number;
  /** Positions of the model: no sequence is longer. */
  maxPositions: number;
  cuda: boolean;
}

/** A silence this many times the longest one of the same phase is none that was to be expected. */
const FACTOR = 20;
/** Reading weights from a slow disk or network. */
const LOADING_MS = 3_600_000;

/** Rates that any machine worth training on exceeds several times. */
const SLOWEST = {
  cpu: { bytesPerMs: 1e6, flopsPerMs: 1e7 },
  cuda: { bytesPerMs: 2e7, flopsPerMs: 1e9 },
} as const;

/**
 * The longest silence to be expected. Generation shows progress when a sequence ends, which may be its whole length away:
 * one pass over all weights, 4 bytes each, a token. Training and scoring show it after each micro-batch: 8 FLOPs per
 * parameter and token (forward, recomputed forward, backward by activations).
 */
function expectedMs(phase: Phase, config: Config, model: ModelSize | null): number {
  if (phase === 'loading') return LOADING_MS;
  if (phase === 'reward') return 2 * config.rewardTimeoutMs;
  if (model === null) return 0;
  const { bytesPerMs, flopsPerMs } = SLOWEST[model.cuda ? 'cuda' : 'cpu'];
  const tokenMs = (4 * model.parameters) / bytesPerMs;
  switch (phase) {
    case 'generate':
      return tokenMs * Math.min(config.maxCompletionLength, model.maxPositions);
    case 'baseEvaluation':
    case 'evaluation':
      return tokenMs * Math.min(config.evalMaxNewTokens, model.maxPositions);
    case 'score':
    case 'train':
      return (
        (8 * model.parameters * Math.max(config.microBatchTokens, config.maxCompletionLength)) / flopsPerMs
      );
    default:
      return 0;
  }
}

/** In milliseconds; null: the phase is not watched. @param longestMs longest silence of this phase so far */
export function phaseLimitMs(
  phase: Phase,
  config: Config,
  model: ModelSize | null,
  longestMs: number,
): number | null {
  const given = config.watchdogPhaseMs[phase];
  if (given !== undefined || config.watchdogMs === null) return given ?? null;
  return Math.max(config.watchdogMs, expectedMs(phase, config, model), FACTOR * longestMs);
}

/** Often enough for the shortest limit, and never more than once a second. */
export function tickMs({ watchdogMs, watchdogPhaseMs }: Config): number | null {
  const limits = [watchdogMs, ...Object.values(watchdogPhaseMs)].filter((limit) => typeof limit === 'number');
  return limits.length === 0 ? null : Math.max(5, Math.min(1_000, ...limits.map((limit) => limit / 5)));
}
