/** The thresholds for a warning and a collapse. */
import type { MonitorInput, MonitorSettings } from '../config';

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
  /** The ACOER paper to the letter: section 4.1 (collapse, MATH-500's threshold) and appendix (warning). */
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
