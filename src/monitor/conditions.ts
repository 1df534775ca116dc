/** The conditions of a warning and of a collapse, each with the sentence that says why it holds. */
import { moving, ofBase, type Averages, type Signal } from './averages';
import type { MonitorSettings } from './settings';

const percent = (share: number) => `${(100 * share).toFixed(1)}%`;
const points = (share: number) => (100 * share).toFixed(1);

/** How far a moving average lies below its highest or above its lowest value; 0 when not known yet. */
function below(averages: Averages, signal: Signal): number {
  const now = moving(averages, signal);
  return now === null ? 0 : (averages.highest[signal] ?? now) - now;
}

function above(averages: Averages, signal: Signal): number {
  const now = moving(averages, signal);
  return now === null ? 0 : now - (averages.lowest[signal] ?? now);
}

const accuracyFell = (averages: Averages) =>
  `sampled accuracy averages ${percent(moving(averages, 'accuracy')!)}, ${points(below(averages, 'accuracy'))} points below its peak`;

/** Thinking is shorter than the definition of a collapse asks for, in words; null: it is not. Without limits it is. */
function thinkingShort(averages: Averages, settings: MonitorSettings): string | null {
  const { collapseThinkingTokens: tokens, collapseThinkingRatio: share } = settings;
  const [now, base] = [moving(averages, 'thinking'), ofBase(averages, 'thinking')];
  if (now === null) return null;
  if (tokens !== null && now >= tokens) return null;
  if (share !== null && (base === null || now >= share * base)) return null;
  const ofWhole = base === null || base === 0 ? '' : `, ${percent(now / base)} of the base's`;
  return `thinking ${now.toFixed(1)} tokens${ofWhole}`;
}

/** Why these averages are a collapse's, in one sentence, or null. */
export function collapseReason(averages: Averages, settings: MonitorSettings): string | null {
  if (below(averages, 'accuracy') < settings.collapseAccuracyDrop) return null;
  const short = thinkingShort(averages, settings);
  return short === null ? null : `Collapse: ${accuracyFell(averages)}, and ${short}.`;
}

/** Each gives its sentence while it holds. */
const warnings: ((averages: Averages, settings: MonitorSettings) => string | null)[] = [
  (averages, settings) => {
    const brevity = moving(averages, 'brevity');
    if (settings.warningBrevity === null || brevity === null || brevity < settings.warningBrevity)
      return null;
    const short = thinkingShort(averages, settings);
    return short === null
      ? null
      : `${short}, and still the shorter of two right answers gains in ${percent(brevity)} of the cases`;
  },
  (averages, { warningAccuracyDrop: limit }) =>
    limit !== null && below(averages, 'accuracy') >= limit ? accuracyFell(averages) : null,
  (averages, { warningAllWrongRise: limit }) =>
    limit !== null && above(averages, 'allWrong') >= limit
      ? `${percent(moving(averages, 'allWrong')!)} of the groups have no correct answer, ${points(above(averages, 'allWrong'))} points more than at best, and only length tells their answers apart`
      : null,
  (averages, { warningZeroStd: limit }) => {
    const now = moving(averages, 'zeroStd');
    return limit !== null && now !== null && now > limit
      ? `the rewards of ${percent(now)} of the groups have no variance`
      : null;
  },
  (averages, { warningTruncatedRise: limit }) =>
    limit !== null && above(averages, 'truncated') >= limit
      ? `${percent(moving(averages, 'truncated')!)} of the completions are cut off, ${points(above(averages, 'truncated'))} points more than at best`
      : null,
  (averages, { warningEntropyRise: limit }) => {
    const [now, base] = [moving(averages, 'entropy'), ofBase(averages, 'entropy')];
    return limit !== null &&
      now !== null &&
      base !== null &&
      base > 0 &&
      above(averages, 'entropy') >= limit * base
      ? `the entropy per token rose from ${averages.lowest.entropy!.toFixed(4)} to ${now.toFixed(4)}`
      : null;
  },
  (averages, { warningAdvantage: limit }) => {
    const now = moving(averages, 'advantage');
    return limit !== null && now !== null && now >= limit
      ? `the largest advantages average ${now.toFixed(2)}`
      : null;
  },
];

/** Why these averages are a warning's, in one sentence, or null. */
export function warningReason(averages: Averages, settings: MonitorSettings): string | null {
  const found = warnings.map((warning) => warning(averages, settings)).filter((reason) => reason !== null);
  return found.length === 0 ? null : `Warning: ${found.join('; ')}.`;
}
