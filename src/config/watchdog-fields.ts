/** Settings of the watchdog: how long a phase of a run may go without progress, and what happens then. */
import { z } from 'zod';
import { orElse, positive } from './kinds';

/** The phases of a run, in the order a step goes through them. */
export const PHASES = [
  'loading',
  'baseEvaluation',
  'generate',
  'grade',
  'reward',
  'score',
  'train',
  'optimizer',
  'evaluation',
  'checkpoint',
  'sink',
] as const;

export type Phase = (typeof PHASES)[number];

const limitMs = () => positive().nullable();

const phaseLimits = z.strictObject(
  Object.fromEntries(
    PHASES.map((phase) => [
      phase,
      limitMs().optional().describe(`Limit for the phase ${phase}; null: it is not watched.`),
    ]),
  ) as Record<Phase, z.ZodOptional<ReturnType<typeof limitMs>>>,
);

export const watchdogFields = {
  watchdogMs: orElse(limitMs(), 600_000).describe(
    'A phase that makes no progress for this long counts as hung. The limit is raised where the model, the device or the phase so far suggest that more is needed (docs/resume.md). null: nothing is watched.',
  ),
  watchdogPhaseMs: orElse(phaseLimits, {}).describe(
    `Limits for single phases, applied exactly as given: ${PHASES.join(', ')}; null: that phase is not watched.`,
  ),
  onHang: orElse(z.enum(['warn', 'stop']), 'stop').describe(
    'What to do when a phase has hung: warn and keep waiting, or end the run so that it can be resumed.',
  ),
};
