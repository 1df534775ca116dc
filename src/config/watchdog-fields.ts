/** Settings of the watchdog: how long a phase of a run may show no sign of progress, and what follows. */
import { z } from 'zod';

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
] as const;

export type Phase = (typeof PHASES)[number];

const limitMs = () => z.number().positive().nullable();

const phaseLimits = z.strictObject(
  Object.fromEntries(
    PHASES.map((phase) => [
      phase,
      limitMs().optional().describe(`Limit of the phase ${phase}; null: it is not watched.`),
    ]),
  ) as Record<Phase, z.ZodOptional<ReturnType<typeof limitMs>>>,
);

export const watchdogFields = {
  watchdogMs: limitMs()
    .default(600_000)
    .describe(
      'A phase of a step without any progress for this long has hung, unless more is to be expected of the model, the device or the phase so far (docs/resume.md); null: nothing is watched.',
    ),
  watchdogPhaseMs: phaseLimits
    .default({})
    .describe(
      `Limits of single phases, exactly as given: ${PHASES.join(', ')}; null: this phase is not watched.`,
    ),
  onHang: z
    .enum(['warn', 'stop'])
    .default('stop')
    .describe('When a phase has hung: say so and wait on, or end the run so that it can be resumed.'),
};
