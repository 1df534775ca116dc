/** Settings of the collapse guard: what its monitor calls a warning and a collapse, and what a collapse leads to. */
import { z } from 'zod';

const count = (minimum: number) => z.int().min(minimum);
const share = () => z.number().min(0).max(1);

/** Each replaces the value of the monitor's preset (src/monitor/settings.ts); docs/collapse.md has them in a table. */
const monitorSchema = z.strictObject({
  preset: z.enum(['default', 'paper']).default('default'),
  spanGroups: count(1).optional(),
  baseSteps: count(1).optional(),
  collapseAccuracyDrop: share().optional(),
  collapseThinkingTokens: z.number().min(0).nullable().optional(),
  collapseThinkingRatio: z.number().min(0).nullable().optional(),
  collapseSteps: count(1).optional(),
  warningAccuracyDrop: share().nullable().optional(),
  warningBrevity: share().nullable().optional(),
  warningAllWrongRise: share().nullable().optional(),
  warningZeroStd: share().nullable().optional(),
  warningTruncatedRise: share().nullable().optional(),
  warningEntropyRise: z.number().min(0).nullable().optional(),
  warningAdvantage: z.number().min(0).nullable().optional(),
  warningSteps: count(1).optional(),
  recoverySteps: count(1).optional(),
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
