/** How long a phase may go without a sign of progress. */
import type { Config, Phase } from '../../config';

/** The properties of the model that the duration of a phase depends on. */
export interface ModelSize {
  parameters: number;
  /** Positions of the model: no sequence is longer. */
  maxPositions: number;
  cuda: boolean;
}

/** A silence is abnormal at this many times the longest one of the same phase so far. */
const FACTOR = 20;
/** Allows for reading weights from a slow disk or network. */
const LOADING_MS = 3_600_000;

/** Rates that any machine worth training on exceeds several times over. */
const SLOWEST = {
  cpu: { bytesPerMs: 1e6, flopsPerMs: 1e7 },
  cuda: { bytesPerMs: 2e7, flopsPerMs: 1e9 },
} as const;

/**
 * The longest silence to expect; 0 while it depends on a model that is not loaded. Generation shows progress
 * only when a sequence ends, so the silence may last its whole length: for each token one pass over all
 * weights, 4 bytes each. Training and scoring show progress after each micro-batch: 8 FLOPs per parameter and
 * token (forward, recomputed forward, backward by activations).
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

/**
 * In milliseconds; null: the phase is not watched.
 * @param longestMs the longest silence of this phase so far
 */
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

/** Milliseconds between checks: a fifth of the shortest limit, 5 ms to 1 s. null: nothing is watched. */
export function tickMs({ watchdogMs, watchdogPhaseMs }: Config): number | null {
  const limits = [watchdogMs, ...Object.values(watchdogPhaseMs)].filter((limit) => typeof limit === 'number');
  return limits.length === 0 ? null : Math.max(5, Math.min(1_000, ...limits.map((limit) => limit / 5)));
}
