/** The state a run starts from: new, a checkpoint's, or a checkpoint's after a rollback. */
import { initialMonitorState } from '../monitor';
import { readRollbacks, restorePolicy, type RunDirectory, type StoredCheckpoint } from '../run';
import { initialState, type LoopContext } from '../grpo/context';
import { easedState } from './guard';
import type { TrainOpening } from './opening';
import { runStateOf, type RunState } from './state';

function newState({ rewards, config, dataset }: LoopContext): RunState {
  return {
    loop: initialState(rewards, config.maxCompletionLength),
    open: null,
    base: null,
    latest: null,
    best: null,
    pending: null,
    data: dataset.source?.fingerprint ?? null,
    guard: { monitor: initialMonitorState(), healthy: null, collapse: null },
  };
}

/** The state that an opened run starts from; loads its weights into the policy of `context`. */
export async function startState(
  { directory, checkpoint, fork }: TrainOpening,
  context: LoopContext,
): Promise<RunState> {
  if (checkpoint === null) return newState(context);
  if (fork === undefined) return restoreRun(directory, checkpoint, context);
  return forkState(checkpoint, fork, context);
}

/**
 * The state of a checkpoint, with any rollback decided since it was written; loads its weights into the
 * policy of `context`. What was sampled before a rollback is not trained on after it.
 */
export async function restoreRun(
  directory: RunDirectory,
  checkpoint: StoredCheckpoint,
  context: LoopContext,
): Promise<RunState> {
  await restorePolicy(checkpoint, context.policy);
  const state = runStateOf(checkpoint, context.config);
  const { loop } = state;
  const last = readRollbacks(directory).at(-1);
  if (last === undefined || last.number <= loop.eased.rollbacks) return state;
  const eased = easedState(loop, last, context.rewards);
  return { ...state, loop: eased, open: null, guard: { ...state.guard, collapse: null } };
}

/**
 * The state a fork starts from: the checkpoint's, with a new state for rewards that it does not know, and
 * without the evaluations of other data.
 */
async function forkState(
  checkpoint: StoredCheckpoint,
  { keepOpen, otherEvalData }: NonNullable<TrainOpening['fork']>,
  context: LoopContext,
): Promise<RunState> {
  await restorePolicy(checkpoint, context.policy);
  const state = runStateOf(checkpoint, context.config);
  const fresh = newState(context);
  const { loop, open } = state;
  const initial = fresh.loop.rewardStates;
  const known = Object.entries(loop.rewardStates).filter(([name]) => name in initial);
  const rewardStates = { ...initial, ...Object.fromEntries(known) };
  const { base, latest, best } = otherEvalData ? fresh : state;
  return {
    ...state,
    ...{ base, latest, best },
    loop: { ...loop, rewardStates },
    open: keepOpen ? open : null,
    data: fresh.data,
    guard: { ...state.guard, healthy: null, collapse: null },
  };
}
