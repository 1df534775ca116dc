/** Decides what a run does after a step: continue, roll back to a checkpoint, or end. */
import type { Config } from '../config';
import { AcoerError } from '../base/errors';
import type { LoopState } from '../grpo/context';
import { describeNonFinite, type StepPhase } from '../grpo/non-finite';
import type { Next } from '../life/method';
import type { Refusal } from '../grpo/step';
import type { RunState } from './state';

/** A step that was not applied because a number was not finite. */
export interface RefusedStep {
  /** From 1. */
  index: number;
  refusal: Refusal;
  /** Refused steps in a row, this one included. */
  inARow: number;
  /** Folder of its dump. */
  dump: string;
}

const GO_ON: Next = { do: 'go on', warning: null };

/**
 * @param state after the step; before it when the step was refused
 * @param checkpoints their steps, ascending
 * @param refused null: the step was applied
 */
export function afterStep(
  config: Config,
  state: RunState,
  checkpoints: readonly number[],
  refused: RefusedStep | null,
): Next {
  if (refused !== null) return afterRefusal(config, state.loop, checkpoints, refused);
  if (state.guard.collapse === null || config.onCollapse === 'warn') return GO_ON;
  return afterCollapse(config, state, checkpoints, state.guard.collapse);
}

/** `nonFinitePolicy`: skip the step, roll back, or end the run. */
function afterRefusal(
  config: Config,
  loop: LoopState,
  checkpoints: readonly number[],
  refused: RefusedStep,
): Next {
  const { index, refusal, inARow, dump } = refused;
  const reason = `Step ${index} was refused: ${describeNonFinite(refusal.found)}.`;
  const message = `${reason} Nothing of it was applied; to reproduce it: acoer replay ${dump}.`;
  const end = (why: string): Next => ({
    do: 'end',
    error: new AcoerError('NOT_FINITE', `${message} ${why}`),
  });
  if (config.nonFinitePolicy === 'stop') {
    return end('To skip such steps: --resume with --set nonFinitePolicy=skip.');
  }
  if (config.nonFinitePolicy === 'rollback') {
    const { rollbacks, pressure } = loop.eased;
    if (rollbacks >= config.maxRollbacks) return end(spent(config.maxRollbacks));
    const to = checkpointBefore(refusal.found.phase, loop, checkpoints);
    if (to === undefined) return end('There is no checkpoint to roll back to.');
    const rollback = { number: rollbacks + 1, from: index, to, pressure, reason };
    return { do: 'roll back', rollback, code: 'NOT_FINITE' };
  }
  if (inARow >= config.maxNonFiniteSteps) {
    return end(
      `That makes ${inARow} refused steps in a row (maxNonFiniteSteps), so the weights are at fault: ` +
        'go back with acoer fork RUN --at STEP, or with --resume and --set nonFinitePolicy=rollback.',
    );
  }
  return { do: 'go on', warning: message };
}

/** Phases in which only the weights can be at fault. */
const BLAME_WEIGHTS: readonly StepPhase[] = ['generate', 'score', 'accumulate'];

/** The newest checkpoint; if the weights are at fault, the newest one with older weights if there is one. */
function checkpointBefore(
  phase: StepPhase,
  { step, refused }: LoopState,
  checkpoints: readonly number[],
): number | undefined {
  const older = checkpoints.filter((saved) => saved < step - refused);
  return (BLAME_WEIGHTS.includes(phase) ? older.at(-1) : undefined) ?? checkpoints.at(-1);
}

const spent = (maxRollbacks: number) =>
  `The run has rolled back as often as it may (maxRollbacks = ${maxRollbacks}).`;

/** `onCollapse`: end the run, or roll back to the newest healthy checkpoint with less efficiency pressure. */
function afterCollapse(
  { onCollapse, maxRollbacks, rollbackPressure }: Config,
  { loop, guard }: RunState,
  checkpoints: readonly number[],
  reason: string,
): Next {
  const { step, eased } = loop;
  const end = (why: string): Next => ({
    do: 'end',
    error: new AcoerError('COLLAPSED', `The run ended after step ${step}. ${reason} ${why}`),
  });
  if (onCollapse === 'stop') return end('To continue anyway: --resume.');
  if (eased.rollbacks >= maxRollbacks) return end(spent(maxRollbacks));
  if (guard.healthy === null || !checkpoints.includes(guard.healthy)) {
    return end('There is no healthy checkpoint to roll back to.');
  }
  const pressure = eased.pressure * rollbackPressure;
  const rollback = { number: eased.rollbacks + 1, from: step, to: guard.healthy, pressure, reason };
  return { do: 'roll back', rollback, code: 'COLLAPSED' };
}
