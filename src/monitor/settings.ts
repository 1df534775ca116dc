/** What the monitor calls a warning and a collapse. */
import type { MonitorInput } from '../config';

/** null switches a condition off. */
export interface MonitorSettings {
  /** Groups (prompts) a moving average spans, and the fewest a fall is found in; nothing is judged before that many. */
  spanGroups: number;
  /** Groups at the start of the run that stand for the base model where it was not evaluated. */
  baseGroups: number;
  /** Collapsed: accuracy fell by at least this much (a fraction), */
  collapseAccuracyDrop: number;
  /**
   * and by this many standard errors; null: no statistics, the drop is how far the moving average lies below its peak,
   * and evaluations decide nothing,
   */
  collapseZ: number | null;
  /** and thinking is below this many tokens, */
  collapseThinkingTokens: number | null;
  /** and below this share of the base's, */
  collapseThinkingRatio: number | null;
  /** for this many steps in a row. */
  collapseSteps: number;
  /**
   * Warning: the shorter of two right answers to a problem gains in at least this share of the cases,
   */
  warningBrevity: number | null;
  /** and thinking is below this share of the base's: nothing will stop it from getting shorter, */
  warningThinkingRatio: number | null;
  /** or accuracy fell by at least this much, */
  warningAccuracyDrop: number | null;
  /** or the share of groups without a correct answer rose by this much, */
  warningAllWrongRise: number | null;
  /** either by this many standard errors; null: against the peak and the lowest value of the moving averages, */
  warningZ: number | null;
  /** or the tokens outside the thinking grew by this share of what thinking lost, */
  warningAnswerShare: number | null;
  /** or TRL's `frac_reward_zero_std` is above this, */
  warningZeroStd: number | null;
  /** or the share of truncated completions this far above its lowest, */
  warningTruncatedRise: number | null;
  /** or the entropy per token above its lowest by this share of the base's, */
  warningEntropyRise: number | null;
  /** or the largest |advantage| of a batch at least this, */
  warningAdvantage: number | null;
  /** for this many steps in a row. */
  warningSteps: number;
  /** Steps in a row without any such condition until the state gets better again. */
  recoverySteps: number;
}

/** Chosen by scripts/guard-simulation.mjs and on the embedded model (docs/collapse.md). */
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
   * Steps are large and quick there, and accuracy may dip for some of them and come back: a fall is a collapse once it has
   * held for as many steps of 8 prompts as make the shortest fall that is looked for.
   */
  embedded: { ...BY_DEFAULT, collapseSteps: 10 },
  /** The ACOER paper to the letter: section 4.1 (collapse, with MATH-500's threshold) and the appendix (warning). */
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

/** A preset's settings with those given over them. */
export function monitorSettings({ preset, ...given }: MonitorInput): MonitorSettings {
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return { ...MONITOR_PRESETS[preset], ...set };
}
