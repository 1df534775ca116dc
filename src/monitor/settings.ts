/** What the monitor calls a warning and a collapse. */
import type { MonitorInput } from '../config';

/** Thresholds are compared with moving averages. null switches a condition off. */
export interface MonitorSettings {
  /** Groups (prompts) a moving average spans; nothing is judged before that many were seen. */
  spanGroups: number;
  /** Generated batches at the start of the run that stand for the base model. */
  baseSteps: number;
  /** Collapsed: accuracy at least this far below its peak (a fraction), */
  collapseAccuracyDrop: number;
  /** and thinking below this many tokens, */
  collapseThinkingTokens: number | null;
  /** and below this share of the base's, */
  collapseThinkingRatio: number | null;
  /** over this many steps on end. */
  collapseSteps: number;
  /**
   * Warning: thinking as short as in a collapse, and still the shorter of two right answers to a problem gains in at
   * least this share of the cases: nothing will stop it from getting shorter,
   */
  warningBrevity: number | null;
  /** or accuracy at least this far below its peak, */
  warningAccuracyDrop: number | null;
  /** or the share of groups without a correct answer this far above its lowest, */
  warningAllWrongRise: number | null;
  /** or TRL's `frac_reward_zero_std` above this, */
  warningZeroStd: number | null;
  /** or the share of truncated completions this far above its lowest, */
  warningTruncatedRise: number | null;
  /** or the entropy per token above its lowest by this share of the base's, */
  warningEntropyRise: number | null;
  /** or the largest |advantage| of a batch at least this, */
  warningAdvantage: number | null;
  /** over this many steps on end. */
  warningSteps: number;
  /** Steps on end without any such condition until the state gets better again. */
  recoverySteps: number;
}

export const MONITOR_PRESETS: Readonly<Record<MonitorInput['preset'], MonitorSettings>> = {
  /** Measured on the embedded model (docs/collapse.md). */
  default: {
    spanGroups: 80,
    baseSteps: 5,
    // The paper's 5 points, and 2 for the standard error of an average over 80 groups.
    collapseAccuracyDrop: 0.07,
    collapseThinkingTokens: null,
    collapseThinkingRatio: 0.35,
    collapseSteps: 20,
    warningBrevity: 0.8,
    warningAccuracyDrop: 0.1,
    warningAllWrongRise: 0.12,
    warningZeroStd: null,
    warningTruncatedRise: null,
    warningEntropyRise: null,
    warningAdvantage: null,
    warningSteps: 5,
    recoverySteps: 50,
  },
  /** The ACOER paper to the letter: section 4.1 (collapse, with MATH-500's threshold) and the appendix (warning). */
  paper: {
    spanGroups: 50,
    baseSteps: 5,
    collapseAccuracyDrop: 0.05,
    collapseThinkingTokens: 500,
    collapseThinkingRatio: null,
    collapseSteps: 200,
    warningBrevity: null,
    warningAccuracyDrop: null,
    warningAllWrongRise: null,
    warningZeroStd: 0.5,
    warningTruncatedRise: null,
    warningEntropyRise: null,
    warningAdvantage: null,
    warningSteps: 1,
    recoverySteps: 20,
  },
};

/** A preset's settings with those given over them. */
export function monitorSettings({ preset, ...given }: MonitorInput): MonitorSettings {
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return { ...MONITOR_PRESETS[preset], ...set };
}
