/** The state a run begins with: new, that of a checkpoint, or that of a checkpoint after a rollback. */
import { initialMonitorState } from '../monitor';
import { readRollbacks, restorePolicy, type RunDirectory, type StoredCheckpoint } from '../run';
import { initialState, type LoopContext } from '../grpo/context';
import { easedState } from './guard';
import { runStateOf, type RunState } from './state';

export function newState({ rewards, config, dataset }: LoopContext): RunState {
  return {
    position: { state: initialState(rewards, config.maxCompletionLength), open: null },
    base: null,
    latest: null,
    best: null,
    pending: null,
    data: dataset.source?.fingerprint ?? null,
    guard: { monitor: initialMonitorState(), healthy: null, collapse: null },
  };
}

/**
 * The state of a checkpoint, its weights put into the context's policy; with the rollback that was decided since it was
 * written. What was sampled before a rollback is not trained on after it.
 */
export async function restoreRun(
  directory: RunDirectory,
  checkpoint: StoredCheckpoint,
  context: LoopContext,
): Promise<RunState> {
  await restorePolicy(checkpoint, context.policy);
  const state = runStateOf(checkpoint, context.config);
  const loop = state.position.state;
  const last = readRollbacks(directory).at(-1);
  if (last === undefined || last.number <= loop.eased.rollbacks) return state;
  const position = { state: easedState(loop, last, context.rewards), open: null };
  return { ...state, position, guard: { ...state.guard, collapse: null } };
}

/**
 * The state a fork begins with: the checkpoint's; rewards that it does not know begin afresh.
 * @param keepOpen go on with the updates that are left of a batch; otherwise the first step generates
 */
export async function forkState(
  checkpoint: StoredCheckpoint,
  keepOpen: boolean,
  context: LoopContext,
): Promise<RunState> {
  await restorePolicy(checkpoint, context.policy);
  const state = runStateOf(checkpoint, context.config);
  const fresh = newState(context);
  const { state: loop, open } = state.position;
  const initial = fresh.position.state.rewardStates;
  const known = Object.entries(loop.rewardStates).filter(([name]) => name in initial);
  const rewardStates = { ...initial, ...Object.fromEntries(known) };
  return {
    ...state,
    position: { state: { ...loop, rewardStates }, open: keepOpen ? open : null },
    data: fresh.data,
    guard: { ...state.guard, healthy: null, collapse: null },
  };
}
