/** The conditions of a warning and of a collapse, each with a sentence saying why it holds. */
import { percent } from '../base/text';
import type { Falls } from './accuracy';
import { above, below, moving, ofBase, type Averages } from './averages';
import type { Fall } from './change';
import type { MonitorContext } from './context';
import type { MonitorSettings } from '../config';

/** What the monitor knows after a batch. */
export interface Known {
  averages: Averages;
  falls: Falls;
  settings: MonitorSettings;
  context: MonitorContext;
}

const points = (share: number) => (100 * share).toFixed(1);

/** A drop in thinking below this fraction is too small to ask where the tokens went. */
const SAVED = 0.2;

/**
 * Thinking shrinks while its average is this far below that over 2.5 times as many groups. The embedded
 * model's moves by a twentieth between steps that change nothing.
 */
const STILL_SHRINKING = 0.06;

/** Limits in tokens and as a fraction of the base's; null means no limit. */
interface Limits {
  tokens: number | null;
  share: number | null;
}

/** A description of thinking if it is below all the limits given, else null. */
function thinkingBelow(now: number | null, base: number | null, { tokens, share }: Limits): string | null {
  if (now === null) return null;
  if (tokens !== null && now >= tokens) return null;
  if (share !== null && (base === null || now >= share * base)) return null;
  const ofWhole = base === null || base === 0 ? '' : `, ${percent(now / base)} of the base's`;
  return `thinking ${now.toFixed(1)} tokens${ofWhole}`;
}

const thinkingOfBase = ({ averages, context }: Pick<Known, 'averages' | 'context'>): number | null =>
  context.base?.thinkingTokens ?? ofBase(averages, 'thinking');

/**
 * A description of thinking if it is as short as in a collapse, else null: that of all answers, or that of the
 * correct ones in training. Wrong answers are often the longer ones, so the mean of all rises with the very
 * fall that is looked for.
 */
export function thinkingShort(known: Omit<Known, 'falls'>, now: number | null): string | null {
  const { collapseThinkingTokens: tokens, collapseThinkingRatio: share } = known.settings;
  const all = thinkingBelow(now, thinkingOfBase(known), { tokens, share });
  if (all !== null || share === null) return all;
  const correct = moving(known.averages, 'recentCorrect');
  const short = thinkingBelow(correct, ofBase(known.averages, 'recentCorrect'), { tokens, share });
  return short && `correct answers' ${short}`;
}

/** "18.5 points (5.2 standard errors)". */
export const drop = (before: number, now: number, deviations: number) =>
  `${points(before - now)} points (${deviations.toFixed(1)} standard errors)`;

/** Whether accuracy's moving average agrees with a fall: it is nearer to the one after than before. */
const stillLow = ({ averages }: Known, { before, now }: Fall) =>
  (moving(averages, 'accuracy') ?? now) <= (before + now) / 2;

function belowPeak({ averages }: Known, least: number): string | null {
  const now = moving(averages, 'accuracy');
  const depth = below(averages, 'accuracy');
  if (now === null || depth < least) return null;
  return `sampled accuracy averages ${percent(now)}, ${points(depth)} points below its peak`;
}

function accuracyFell(known: Known, fall: Fall | null): string | null {
  if (fall === null || !stillLow(known, fall)) return null;
  const { before, now, groups, groupsBefore, deviations } = fall;
  return `sampled accuracy averages ${percent(now)} over ${groups} groups, ${drop(before, now, deviations)} below the ${groupsBefore} before`;
}

/** Why these batches are a collapse, in one sentence, or null. Always null when evaluations decide. */
export function collapseReason(known: Known): string | null {
  const { collapseAccuracyDrop: least, collapseZ: z } = known.settings;
  if (known.context.evaluations !== null && z !== null) return null;
  const short = thinkingShort(known, moving(known.averages, 'thinking'));
  if (short === null) return null;
  const fell = z === null ? belowPeak(known, least) : accuracyFell(known, known.falls.collapse);
  return fell === null ? null : `Collapse: ${fell}, and ${short}.`;
}

function accuracyWarning(known: Known): string | null {
  const { warningAccuracyDrop: least, warningZ: z } = known.settings;
  if (least === null) return null;
  return z === null ? belowPeak(known, least) : accuracyFell(known, known.falls.warning);
}

function allWrongRose({ averages, falls: { anyRight }, settings }: Known): string | null {
  const { warningAllWrongRise: least, warningZ: z } = settings;
  const now = moving(averages, 'allWrong');
  if (least === null || now === null) return null;
  const rise = above(averages, 'allWrong');
  let more = `${points(rise)} points more than at best`;
  if (z === null && rise < least) return null;
  if (z !== null) {
    if (anyRight === null || now < 1 - (anyRight.before + anyRight.now) / 2) return null;
    more = `${drop(anyRight.before, anyRight.now, anyRight.deviations)} more than before`;
  }
  return `${percent(now)} of the groups have no correct answer, ${more}, and only length tells their answers apart`;
}

/** Whether thinking stopped shrinking and accuracy held: brevity may still pay with nothing left to cut. */
function settled({ averages, settings }: Known, thinking: number): boolean {
  const lasting = moving(averages, 'lastingThinking');
  return (
    lasting !== null &&
    thinking > (1 - STILL_SHRINKING) * lasting &&
    below(averages, 'lastingAccuracy') < settings.collapseAccuracyDrop
  );
}

function brevityPays(known: Known): string | null {
  const { warningBrevity: limit, warningThinkingRatio: share } = known.settings;
  const brevity = moving(known.averages, 'brevity');
  const lasting = moving(known.averages, 'lastingBrevity');
  // Brevity may pay for a while, before the budget takes hold or in a short phase later.
  if (limit === null || brevity === null || Math.min(brevity, lasting!) < limit) return null;
  const now = moving(known.averages, 'thinking');
  if (now === null || settled(known, now)) return null;
  const short = thinkingBelow(now, thinkingOfBase(known), { tokens: null, share });
  return (
    short && `${short}, and still the shorter of two right answers gains in ${percent(brevity)} of the cases`
  );
}

function answersGrew({ averages, settings: { warningAnswerShare: limit } }: Known): string | null {
  const [thinking, thinkingBefore] = [moving(averages, 'thinking'), ofBase(averages, 'thinking')];
  const [answer, answerBefore] = [moving(averages, 'answer'), ofBase(averages, 'answer')];
  if (limit === null || thinking === null || thinkingBefore === null) return null;
  if (answer === null || answerBefore === null) return null;
  const saved = thinkingBefore - thinking;
  const grown = answer - answerBefore;
  if (saved < SAVED * thinkingBefore || saved <= 0 || grown < limit * saved) return null;
  return `reasoning moves past </think>: there are ${answer.toFixed(1)} tokens outside the thinking, ${grown.toFixed(1)} more than at the start, while thinking lost ${saved.toFixed(1)}`;
}

/** Each returns a description while it holds. */
const warnings: ((known: Known) => string | null)[] = [
  brevityPays,
  accuracyWarning,
  allWrongRose,
  answersGrew,
  ({ averages, settings: { warningZeroStd: limit } }) => {
    const now = moving(averages, 'zeroStd');
    return limit !== null && now !== null && now > limit
      ? `the rewards of ${percent(now)} of the groups have no variance`
      : null;
  },
  ({ averages, settings: { warningTruncatedRise: limit } }) =>
    limit !== null && above(averages, 'truncated') >= limit
      ? `${percent(moving(averages, 'truncated')!)} of the completions are cut off, ${points(above(averages, 'truncated'))} points more than at best`
      : null,
  ({ averages, settings: { warningEntropyRise: limit } }) => {
    const [now, base] = [moving(averages, 'entropy'), ofBase(averages, 'entropy')];
    return limit !== null &&
      now !== null &&
      base !== null &&
      base > 0 &&
      above(averages, 'entropy') >= limit * base
      ? `the entropy per token rose from ${averages.lowest.entropy!.toFixed(4)} to ${now.toFixed(4)}`
      : null;
  },
  ({ averages, settings: { warningAdvantage: limit } }) => {
    const now = moving(averages, 'advantage');
    return limit !== null && now !== null && now >= limit
      ? `the largest advantages average ${now.toFixed(2)}`
      : null;
  },
];

/** Why these batches are a warning, in one sentence, or null. */
export function warningReason(known: Known): string | null {
  const found = warnings.map((warning) => warning(known)).filter((reason) => reason !== null);
  return found.length === 0 ? null : `Warning: ${found.join('; ')}.`;
}
