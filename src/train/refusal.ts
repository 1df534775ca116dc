/** What a run does with a refused step: dump it, then pass it over, go back to a checkpoint, or end. */
import type { Config } from '../config';
import { AcoerError } from '../errors';
import type { Rollback } from '../run';
import type { LoopState } from '../grpo/context';
import type { RunFiles, RunFilesParts } from './files';
import type { LoopStep } from '../grpo/loop';
import { describeNonFinite, type StepPhase } from '../grpo/non-finite';
import type { Refusal } from '../grpo/refused';
import type { RunState } from './state';

/** Phases in which only the weights can be to blame. */
const BLAME_WEIGHTS: readonly StepPhase[] = ['generate', 'score', 'accumulate'];

/**
 * Writes the dump of a step refused behind `before`. Returns the rollback to make, or null to pass the step over.
 * @throws NOT_FINITE when the run is to end
 */
export async function settleRefusal(
  { config, directory, emit }: RunFilesParts,
  files: RunFiles,
  before: RunState,
  step: LoopStep & { refusal: Refusal },
): Promise<Rollback | null> {
  const { index, refusal, position } = step;
  const path = await files.dump(before, step);
  const reason = `Step ${index} was refused: ${describeNonFinite(refusal.found)}.`;
  const message = `${reason} Nothing of it was applied; acoer replay ${path} makes it again.`;
  const end = (why: string) => new AcoerError('NOT_FINITE', `${message} ${why}`);
  if (config.nonFinitePolicy === 'stop') {
    throw end('To pass such steps over: --resume with --set nonFinitePolicy=skip.');
  }
  if (config.nonFinitePolicy === 'rollback') {
    const { state } = before.position;
    return refusalRollback(
      config,
      state,
      directory.checkpointSteps(),
      { index, phase: refusal.found.phase, reason },
      end,
    );
  }
  if (position.state.refused >= config.maxNonFiniteSteps) {
    throw end(
      `That makes ${position.state.refused} refused steps on end (maxNonFiniteSteps), so the weights are to blame: ` +
        'go back with acoer fork RUN --at STEP, or with --resume and --set nonFinitePolicy=rollback.',
    );
  }
  emit({ type: 'warning', message });
  return null;
}

/**
 * Back to the newest checkpoint; where the weights are to blame, to the newest one with older weights, if there is one.
 * The efficiency pressure stays.
 */
export function refusalRollback(
  { maxRollbacks }: Pick<Config, 'maxRollbacks'>,
  { step, refused, eased }: LoopState,
  checkpoints: readonly number[],
  { index, phase, reason }: { index: number; phase: StepPhase; reason: string },
  end: (why: string) => AcoerError,
): Rollback {
  const { rollbacks, pressure } = eased;
  if (rollbacks >= maxRollbacks) throw end(`maxRollbacks = ${maxRollbacks} rollbacks were made before.`);
  const older = checkpoints.filter((saved) => saved < step - refused);
  const to = (BLAME_WEIGHTS.includes(phase) ? older.at(-1) : undefined) ?? checkpoints.at(-1);
  if (to === undefined) throw end('There is no checkpoint to go back to.');
  return { number: rollbacks + 1, from: index, to, pressure, reason };
}
