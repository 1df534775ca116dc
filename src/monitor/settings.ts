/** The thresholds for a warning and a collapse. */
import type { MonitorInput } from '../config';

/** null turns a condition off. */
export interface MonitorSettings {
  /**
   * Span of the moving averages in groups (prompts). Also the minimum length of a fall, and of the run before
   * it is judged.
   */
  spanGroups: number;
  /** Number of groups at the start of the run that are used for the base model if it was not evaluated. */
  baseGroups: number;
  /** Collapse: accuracy fell by at least this much, a fraction. All of the collapse conditions must hold. */
  collapseAccuracyDrop: number;
  /**
   * Collapse: accuracy fell by this many standard errors. null turns statistics off: the drop is then how far
   * the moving average is below its peak, and evaluations decide nothing.
   */
  collapseZ: number | null;
  /** Collapse: thinking is below this many tokens. */
  collapseThinkingTokens: number | null;
  /** Collapse: thinking is below this fraction of the base's. */
  collapseThinkingRatio: number | null;
  /** Number of consecutive steps for which the conditions of a collapse must hold. */ collapseSteps: number;
  /**
   * Warning: the shorter of two correct answers to a problem gains in at least this fraction of cases, and
   * thinking is below `warningThinkingRatio`. Any one of the warning conditions is enough.
   */
  warningBrevity: number | null;
  /**
   * With `warningBrevity`: thinking is below this fraction of the base's, so nothing will stop it from
   * shrinking.
   */
  warningThinkingRatio: number | null;
  /** Warning: accuracy fell by at least this much. */
  warningAccuracyDrop: number | null;
  /** Warning: the fraction of groups without a correct answer rose by this much. */
  warningAllWrongRise: number | null;
  /** Standard errors for these two; null compares with the highest and lowest moving averages instead. */
  warningZ: number | null;
  /** Warning: the tokens outside the thinking grew by this fraction of what thinking lost. */
  warningAnswerShare: number | null;
  /** Warning: TRL's `frac_reward_zero_std` is above this. */
  warningZeroStd: number | null;
  /** Warning: the fraction of truncated completions is this far above its lowest value. */
  warningTruncatedRise: number | null;
  /** Warning: the entropy per token is above its lowest value by this fraction of the base's. */
  warningEntropyRise: number | null;
  /** Warning: the largest |advantage| of a batch is at least this. */
  warningAdvantage: number | null;
  /** Number of consecutive steps for which a warning condition must hold. */ warningSteps: number;
  /** Number of consecutive steps without any of these conditions before the state recovers. */
  recoverySteps: number;
}

/** Chosen by scripts/studies/guard-simulation.mjs and on the embedded model (docs/collapse.md). */
const BY_DEFAULT: MonitorSettings = {
  spanGroups: 80,
  baseGroups: 40,
  collapseAccuracyDrop: 0.05,
  collapseZ: 4.2,
  collapseThinkingTokens: null,
  collapseThinkingRatio: 0.35,
  collapseSteps: 1,
  warningBrevity: 0.9,
  warningThinkingRatio: 0.6,
  warningAccuracyDrop: 0.03,
  warningAllWrongRise: 0.03,
  warningZ: 3.8,
  warningAnswerShare: 0.3,
  warningZeroStd: null,
  warningTruncatedRise: null,
  warningEntropyRise: null,
  warningAdvantage: null,
  warningSteps: 5,
  recoverySteps: 50,
};

export const MONITOR_PRESETS: Readonly<Record<MonitorInput['preset'], MonitorSettings>> = {
  default: BY_DEFAULT,
  /**
   * For the embedded model, whose steps are large and quick and whose accuracy may dip and recover: a fall is
   * a collapse once it has held for as many steps of 8 prompts as the shortest fall takes.
   */
  embedded: { ...BY_DEFAULT, collapseSteps: 10 },
  /**
   * The ACOER paper to the letter: section 4.1 (collapse, with MATH-500's threshold) and the appendix
   * (warning).
   */
  paper: {
    spanGroups: 50,
    baseGroups: 40,
    collapseAccuracyDrop: 0.05,
    collapseZ: null,
    collapseThinkingTokens: 500,
    collapseThinkingRatio: null,
    collapseSteps: 200,
    warningBrevity: null,
    warningThinkingRatio: null,
    warningAccuracyDrop: null,
    warningAllWrongRise: null,
    warningZ: null,
    warningAnswerShare: null,
    warningZeroStd: 0.5,
    warningTruncatedRise: null,
    warningEntropyRise: null,
    warningAdvantage: null,
    warningSteps: 1,
    recoverySteps: 20,
  },
};

/** A preset's settings, overridden by the given ones. */
export function monitorSettings({ preset, ...given }: MonitorInput): MonitorSettings {
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return { ...MONITOR_PRESETS[preset], ...set };
}
