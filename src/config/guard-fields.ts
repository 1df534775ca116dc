/** Settings of the collapse guard: what its monitor calls a warning and a collapse, and what a collapse leads to. */
import { z } from 'zod';

const count = (minimum: number) => z.int().min(minimum);
const share = () => z.number().min(0).max(1);

/** Each replaces the value of the monitor's preset (src/monitor/settings.ts); docs/collapse.md has them in a table. */
const monitorSchema = z.strictObject({
  preset: z
    .enum(['default', 'embedded', 'paper'])
    .default('default')
    .describe(
      'The values that the others replace: default, embedded (for the embedded model) or paper (the ACOER paper to the letter).',
    ),
  spanGroups: count(1)
    .optional()
    .describe('Groups (prompts) a moving average spans, and the fewest a fall is found in.'),
  baseGroups: count(1)
    .optional()
    .describe('Groups at the start of the run that stand for the base model where it was not evaluated.'),
  collapseAccuracyDrop: share().optional().describe('Collapsed: accuracy fell by at least this fraction.'),
  collapseZ: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe(
      'Collapsed: and by this many standard errors; null: no statistics, only the moving average against its peak.',
    ),
  collapseThinkingTokens: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe('Collapsed: and thinking is below this many tokens; null: no such limit.'),
  collapseThinkingRatio: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe("Collapsed: and below this share of the base's; null: no such limit."),
  collapseSteps: count(1).optional().describe('Collapsed: for this many steps in a row.'),
  warningAccuracyDrop: share()
    .nullable()
    .optional()
    .describe('Warning: accuracy fell by at least this fraction; null: never.'),
  warningBrevity: share()
    .nullable()
    .optional()
    .describe(
      'Warning: the shorter of two right answers to a problem gains in at least this share of the cases; null: never.',
    ),
  warningThinkingRatio: share()
    .nullable()
    .optional()
    .describe("Warning: and thinking is below this share of the base's; null: however long it is."),
  warningAllWrongRise: share()
    .nullable()
    .optional()
    .describe('Warning: the share of groups without a correct answer rose by this much; null: never.'),
  warningZ: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe(
      'Warning: either of these two by this many standard errors; null: against the extremes of the moving averages.',
    ),
  warningAnswerShare: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe(
      'Warning: the tokens outside the thinking grew by this share of what thinking lost; null: never.',
    ),
  warningZeroStd: share()
    .nullable()
    .optional()
    .describe('Warning: frac_reward_zero_std is above this; null: never.'),
  warningTruncatedRise: share()
    .nullable()
    .optional()
    .describe('Warning: the share of truncated completions is this far above its lowest; null: never.'),
  warningEntropyRise: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe("Warning: the entropy per token is above its lowest by this share of the base's; null: never."),
  warningAdvantage: z
    .number()
    .min(0)
    .nullable()
    .optional()
    .describe('Warning: the largest |advantage| of a batch is at least this; null: never.'),
  warningSteps: count(1).optional().describe('Warning: for this many steps in a row.'),
  recoverySteps: count(1)
    .optional()
    .describe('Steps in a row without any such condition until the state gets better again.'),
});

export const guardFields = {
  monitor: monitorSchema
    .default({ preset: 'default' })
    .describe(
      'The collapse monitor: {preset: default or paper} and any of its settings, see docs/collapse.md.',
    ),
  onCollapse: z
    .enum(['warn', 'stop', 'rollback'])
    .default('warn')
    .describe(
      'When the monitor finds a collapse: say so, end the run, or go back to the last healthy checkpoint with less efficiency pressure.',
    ),
  maxRollbacks: count(0)
    .default(3)
    .describe('Rollbacks of one run; the collapse after the last one ends it.'),
  rollbackPressure: share()
    .default(0.1)
    .describe(
      'Factor on the efficiency pressure at each rollback: 0 leaves only the verdict and the format.',
    ),
};

export const MONITOR_KEYS: readonly string[] = Object.keys(monitorSchema.shape);

export type MonitorInput = z.output<typeof monitorSchema>;
