/** How long the phases of a run of `train` may be silent before that is abnormal. */
import { servedBy, type Config } from '../config';
import { promptLimit } from '../plan';
import { completionLimitMs } from '../samplers/vllm';
import { DEFAULT_SLOTS } from '../sampling';
import { commonSilence, passMs, slowest, type ModelSize, type Silences } from '../life/watchdog';

/** Prompts are read together up to this many tokens (native/core/generate/admission.cpp), a longer one alone. */
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
  const { bytesPerMs, flopsPerMs } = slowest(model);
  const slots = config.maxSlots ?? DEFAULT_SLOTS;
  const tokenMs = (4 * parameters) / bytesPerMs + (2 * parameters * slots) / flopsPerMs;
  const together = cuda ? Math.min(slots, prompts) : 1;
  const promptMs = (4 * parameters * Math.max(together * PREFILL_TOKENS, longest)) / flopsPerMs;
  return TOKENS_PER_LOOK * tokenMs + (cuda ? promptMs : promptMs / layers);
}

/**
 * The silences of a run of `train`; 0 while one depends on a model that is not loaded. A sampler that reports only
 * completions may be silent for the whole length of one. Training and scoring show progress after each micro-batch.
 */
export const silencesOf =
  (config: Config): Silences =>
  (phase, model) => {
    if (phase === 'reward') return 2 * config.rewardTimeoutMs;
    const common = commonSilence(phase, config);
    if (common !== null) return common;
    if (model === null) return 0;
    const { promptsPerStep, stepsPerGeneration, maxCompletionLength } = config;
    const served = servedBy(config);
    switch (phase) {
      case 'generate':
        if (served !== null) return completionLimitMs(maxCompletionLength) + 1000 * served.patienceSeconds;
        if (!model.samplerReports) {
          const longest = Math.min(maxCompletionLength, model.maxPositions);
          return ((4 * model.parameters) / slowest(model).bytesPerMs) * longest;
        }
        return decodingMs(config, model, promptsPerStep * stepsPerGeneration, promptLimit(config, model));
      case 'baseEvaluation':
      case 'evaluation':
        // Always sampled by the engine, and prompts may be of any length.
        return decodingMs(config, model, Infinity, model.maxPositions);
      case 'score':
      case 'train':
        return passMs(model, Math.max(config.microBatchTokens, maxCompletionLength));
      default:
        return 0;
    }
  };
