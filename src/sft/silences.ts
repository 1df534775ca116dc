/** How long the phases of a supervised run may be silent before that is abnormal. */
import { commonSilence, passMs, type Silences } from '../life/watchdog';
import type { Phase } from '../config';
import type { SftConfig } from './config';

/** Phases that are made of passes over examples. */
const PASSES: readonly Phase[] = ['train', 'baseEvaluation', 'evaluation'];

export const silencesOf =
  (config: SftConfig): Silences =>
  (phase, model) => {
    const common = commonSilence(phase, config);
    if (common !== null) return common;
    // Progress is shown after each pass; an example longer than one has a pass of its own.
    if (model === null || !PASSES.includes(phase)) return 0;
    const longest = Math.min(config.maxLength ?? model.maxPositions, model.maxPositions);
    return passMs(model, Math.max(config.microBatchTokens, longest));
  };
