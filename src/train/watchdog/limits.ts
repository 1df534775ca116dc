/** How long a phase may go without a sign of progress. */
import type { Config, Phase } from '../../config';
import { promptLimit } from '../../plan';
import { DEFAULT_SLOTS } from '../../sampling';
import { minimum } from '../../statistics';

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

/** A silence is abnormal at this many times the longest one of the same phase so far. */
const FACTOR = 20;
/** Allows for reading weights from a slow disk or network. */
const LOADING_MS = 3_600_000;

/** Rates that any machine worth training on exceeds several times over. */
const SLOWEST = {
  cpu: { bytesPerMs: 1e6, flopsPerMs: 1e7 },
  cuda: { bytesPerMs: 2e7, flopsPerMs: 1e9 },
} as const;

/** Prompts are read together up to this many tokens (native/core/generate/generate.cpp), a longer one alone. */
const PREFILL_TOKENS = 2_048;
/** On a GPU the host looks every so many tokens (native/core/generate/gpu_steps.h). */
const TOKENS_PER_LOOK = 8;

/**
 * The longest silence of a sampler that reports: until the host's next look, and while `prompts` prompts of up
 * to `longest` tokens are read. A token takes one pass over all weights, 4 bytes each, and 2 FLOPs per
 * parameter for each sequence; a prompt's takes twice as many, which allows for attention in the longest ones.
 * A CPU reports after each layer. A GPU is given the prompts of all slots at once, and the next look waits for
 * them.
 */
function decodingMs(config: Config, model: ModelSize, prompts: number, longest: number): number {
  const { parameters, layers, cuda } = model;
  const { bytesPerMs, flopsPerMs } = SLOWEST[cuda ? 'cuda' : 'cpu'];
  const slots = config.maxSlots ?? DEFAULT_SLOTS;
  const tokenMs = (4 * parameters) / bytesPerMs + (2 * parameters * slots) / flopsPerMs;
  const together = cuda ? Math.min(slots, prompts) : 1;
  const promptMs = (4 * parameters * Math.max(together * PREFILL_TOKENS, longest)) / flopsPerMs;
  return TOKENS_PER_LOOK * tokenMs + (cuda ? promptMs : promptMs / layers);
}

/**
 * The longest silence to expect; 0 while it depends on a model that is not loaded. A sampler that reports only
 * completions may be silent for the whole length of one. Training and scoring show progress after each
 * micro-batch: 8 FLOPs per parameter and token (forward, recomputed forward, backward by activations).
 */
function expectedMs(phase: Phase, config: Config, model: ModelSize | null): number {
  if (phase === 'loading') return LOADING_MS;
  if (phase === 'reward') return 2 * config.rewardTimeoutMs;
  if (phase === 'sink') return 2 * config.sinkTimeoutMs;
  if (model === null) return 0;
  const { bytesPerMs, flopsPerMs } = SLOWEST[model.cuda ? 'cuda' : 'cpu'];
  const { promptsPerStep, stepsPerGeneration, maxCompletionLength } = config;
  switch (phase) {
    case 'generate':
      if (!model.samplerReports) {
        return ((4 * model.parameters) / bytesPerMs) * Math.min(maxCompletionLength, model.maxPositions);
      }
      return decodingMs(config, model, promptsPerStep * stepsPerGeneration, promptLimit(config, model));
    case 'baseEvaluation':
    case 'evaluation':
      // Always sampled by the engine, and prompts may be of any length.
      return decodingMs(config, model, Infinity, model.maxPositions);
    case 'score':
    case 'train':
      return (8 * model.parameters * Math.max(config.microBatchTokens, maxCompletionLength)) / flopsPerMs;
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
  return limits.length === 0 ? null : Math.max(5, Math.min(1_000, minimum(limits.map((limit) => limit / 5))));
}
