/** The collapse guard: what is a warning or a collapse, and what the run does about a collapse. */
import { z } from 'zod';
import { count, fraction, nonNegative, oneOf, orElse } from './kinds';

/** A threshold; null turns off what it decides. */
const limit = <Kind extends z.ZodType>(kind: Kind) => kind.nullable();

/** The thresholds of the monitor; docs/collapse.md has a table of them with the values of each preset. */
const thresholds = z.strictObject({
  spanGroups: count(1).describe(
    'Groups (prompts) that a moving average spans, and the fewest in which a drop can be found.',
  ),
  baseGroups: count(1).describe(
    'Groups at the start of the run that represent the base model if it was not evaluated.',
  ),
  collapseAccuracyDrop: fraction().describe('Collapse: accuracy dropped by at least this much (a fraction).'),
  collapseZ: limit(nonNegative()).describe(
    'Collapse: the drop is at least this many standard errors; null: no statistics, the moving average is compared with its peak.',
  ),
  collapseThinkingTokens: limit(nonNegative()).describe(
    'Collapse: thinking is also below this many tokens; null: no such limit.',
  ),
  collapseThinkingRatio: limit(nonNegative()).describe(
    "Collapse: thinking is also below this fraction of the base model's; null: no such limit.",
  ),
  collapseSteps: count(1).describe('Collapse: all of this holds for this many steps in a row.'),
  warningAccuracyDrop: limit(fraction()).describe(
    'Warning: accuracy dropped by at least this much (a fraction); null: never.',
  ),
  warningBrevity: limit(fraction()).describe(
    'Warning: of two correct answers to a problem, the shorter gets the higher advantage in at least this fraction of the cases; null: never.',
  ),
  warningThinkingRatio: limit(fraction()).describe(
    "Warning: warningBrevity counts only while thinking is below this fraction of the base model's; null: at any length.",
  ),
  warningAllWrongRise: limit(fraction()).describe(
    'Warning: the fraction of groups without a correct answer rose by at least this much; null: never.',
  ),
  warningZ: limit(nonNegative()).describe(
    'Warning: standard errors needed for warningAccuracyDrop and warningAllWrongRise; null: no statistics, the moving averages are compared with their extremes.',
  ),
  warningAnswerShare: limit(nonNegative()).describe(
    'Warning: the tokens outside the thinking grew by this fraction of what the thinking lost; null: never.',
  ),
  warningZeroStd: limit(fraction()).describe('Warning: frac_reward_zero_std is above this; null: never.'),
  warningTruncatedRise: limit(fraction()).describe(
    'Warning: the fraction of truncated completions is this far above its lowest value; null: never.',
  ),
  warningEntropyRise: limit(nonNegative()).describe(
    "Warning: the entropy per token is above its lowest value by this fraction of the base model's; null: never.",
  ),
  warningAdvantage: limit(nonNegative()).describe(
    'Warning: the largest |advantage| of a batch is at least this; null: never.',
  ),
  warningSteps: count(1).describe('Warning: any of these holds for this many steps in a row.'),
  recoverySteps: count(1).describe(
    'Steps in a row without any such condition after which the state improves again.',
  ),
});

/** Each overrides the value of the monitor's preset (src/monitor/settings.ts). */
const monitorSchema = z.strictObject({
  preset: oneOf('default', 'embedded', 'paper').describe(
    'Preset that the other settings override: default, embedded (for the embedded model) or paper (the ACOER paper to the letter).',
  ),
  ...thresholds.partial().shape,
});

export const guardFields = {
  monitor: orElse(monitorSchema, { preset: 'default' }).describe(
    'The collapse monitor: {preset: default, embedded or paper} and any of its settings (docs/collapse.md).',
  ),
  onCollapse: oneOf('warn', 'stop', 'rollback').describe(
    'What to do when the monitor finds a collapse: warn, stop the run, or roll back to the last healthy checkpoint with less efficiency pressure.',
  ),
  maxRollbacks: orElse(count(0), 3).describe(
    'Maximum rollbacks per run; the next collapse after them ends the run.',
  ),
  rollbackPressure: orElse(fraction(), 0.1).describe(
    'Factor applied to the efficiency pressure at each rollback; 0 leaves only the verdict and the format.',
  ),
};

export const MONITOR_KEYS: readonly string[] = Object.keys(monitorSchema.shape);

export type MonitorInput = z.output<typeof monitorSchema>;

/** The thresholds of a run, all of them known. */
export type MonitorSettings = z.output<typeof thresholds>;
