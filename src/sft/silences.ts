/** How long the phases of a supervised run may be silent before that is abnormal. */
import { commonSilence, passMs, type Silences } from '../life/watchdog';
import type { SftConfig } from './config';

export const silencesOf =
  (config: SftConfig): Silences =>
  (phase, model) => {
    const common = commonSilence(phase, config);
    if (common !== null) return common;
    // Progress is shown after each pass; an example longer than one has a pass of its own.
    if (model === null || (phase !== 'train' && phase !== 'evaluation')) return 0;
    const longest = Math.min(config.maxLength ?? model.maxPositions, model.maxPositions);
    return passMs(model, Math.max(config.microBatchTokens, longest));
  };
