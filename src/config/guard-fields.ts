/**
 * Settings of the collapse guard: what its monitor calls a warning or a collapse, and what the run does about
 * a collapse.
 */
import { z } from 'zod';

const count = (minimum: number) => z.int().min(minimum);
const share = () => z.number().min(0).max(1);

/**
 * Each overrides the value of the monitor's preset (src/monitor/settings.ts); docs/collapse.md has a table.
 */
const monitorSchema = z.strictObject({
  preset: z
    .enum(['default', 'embedded', 'paper'])
    .default('default')
    .describe(
      'Preset that the other settings override: default, embedded (for the embedded model) or paper (the ACOER paper to the letter).',
    ),
  spanGroups: count(1)
    .optional()
    .describe('Groups (prompts) that a moving average spans, and the fewest in which a drop can be found.'),
  baseGroups: count(1)
    .optional()
    .describe('Groups at the start of the run that represent the base model if it was not evaluated.'),
  collapseAccuracyDrop: share()
    .optional()
    .describe('Collapse: accuracy dropped by at least this much (a fraction).'),
  collapseZ: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe(
      'Collapse: the drop is at least this many standard errors; null: no statistics, the moving average is compared with its peak.',
    ),
  collapseThinkingTokens: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe('Collapse: thinking is also below this many tokens; null: no such limit.'),
  collapseThinkingRatio: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe("Collapse: thinking is also below this fraction of the base model's; null: no such limit."),
  collapseSteps: count(1).optional().describe('Collapse: all of this holds for this many steps in a row.'),
  warningAccuracyDrop: share()
    .nullable()
    .optional()
    .describe('Warning: accuracy dropped by at least this much (a fraction); null: never.'),
  warningBrevity: share()
    .nullable()
    .optional()
    .describe(
      'Warning: of two correct answers to a problem, the shorter gets the higher advantage in at least this fraction of the cases; null: never.',
    ),
  warningThinkingRatio: share()
    .nullable()
    .optional()
    .describe(
      "Warning: warningBrevity counts only while thinking is below this fraction of the base model's; null: at any length.",
    ),
  warningAllWrongRise: share()
    .nullable()
    .optional()
    .describe(
      'Warning: the fraction of groups without a correct answer rose by at least this much; null: never.',
    ),
  warningZ: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe(
      'Warning: standard errors needed for warningAccuracyDrop and warningAllWrongRise; null: no statistics, the moving averages are compared with their extremes.',
    ),
  warningAnswerShare: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe(
      'Warning: the tokens outside the thinking grew by this fraction of what the thinking lost; null: never.',
    ),
  warningZeroStd: share()
    .nullable()
    .optional()
    .describe('Warning: frac_reward_zero_std is above this; null: never.'),
  warningTruncatedRise: share()
    .nullable()
    .optional()
    .describe(
      'Warning: the fraction of truncated completions is this far above its lowest value; null: never.',
    ),
  warningEntropyRise: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe(
      "Warning: the entropy per token is above its lowest value by this fraction of the base model's; null: never.",
    ),
  warningAdvantage: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe('Warning: the largest |advantage| of a batch is at least this; null: never.'),
  warningSteps: count(1).optional().describe('Warning: any of these holds for this many steps in a row.'),
  recoverySteps: count(1)
    .optional()
    .describe('Steps in a row without any such condition after which the state improves again.'),
});

export const guardFields = {
  monitor: monitorSchema
    .default({ preset: 'default' })
    .describe(
      'The collapse monitor: {preset: default, embedded or paper} and any of its settings (docs/collapse.md).',
    ),
  onCollapse: z
    .enum(['warn', 'stop', 'rollback'])
    .default('warn')
    .describe(
      'What to do when the monitor finds a collapse: warn, stop the run, or roll back to the last healthy checkpoint with less efficiency pressure.',
    ),
  maxRollbacks: count(0)
    .default(3)
    .describe('Maximum rollbacks per run; the next collapse after them ends the run.'),
  rollbackPressure: share()
    .default(0.1)
    .describe(
      'Factor applied to the efficiency pressure at each rollback; 0 leaves only the verdict and the format.',
    ),
};

export const MONITOR_KEYS: readonly string[] = Object.keys(monitorSchema.shape);

export type MonitorInput = z.output<typeof monitorSchema>;
