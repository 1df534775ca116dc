/** The state a run begins with: new, that of a checkpoint, or that of a checkpoint after a rollback. */
import type { Config } from '../config';
import { AcoerError } from '../errors';
import { initialMonitorState } from '../monitor';
import {
  completeRollbacks,
  readCheckpointState,
  readRollbacks,
  refuseBrokenFork,
  restorePolicy,
  type RunDirectory,
} from '../run';
import { initialState, type LoopContext } from './context';
import { easedState } from './guard';
import type { RunState } from './run';

function newState({ rewards, config }: LoopContext): RunState {
  return {
    loop: initialState(rewards, config.maxCompletionLength),
    base: null,
    latest: null,
    guard: { monitor: initialMonitorState(), healthy: null },
  };
}

/** The state of the checkpoint of `step`, its weights put into the context's policy. */
async function checkpointState(
  directory: RunDirectory,
  step: number,
  context: LoopContext,
): Promise<RunState> {
  const { loop, base, latest, guard } = readCheckpointState(directory, step)!.state as RunState;
  await restorePolicy(directory, step, context.policy);
  return { loop, base, latest, guard };
}

/** As the checkpoint of `step`, with the rollbacks that were decided since it was written. */
export async function restoreRun(
  directory: RunDirectory,
  step: number,
  context: LoopContext,
): Promise<RunState> {
  const state = await checkpointState(directory, step, context);
  const last = readRollbacks(directory).at(-1);
  if (last === undefined || last.number <= state.loop.eased.rollbacks) return state;
  return { ...state, loop: easedState(state.loop, last, context.rewards) };
}

/** A run's newest state, or that of its beginning. */
export async function startState(
  directory: RunDirectory,
  resumed: boolean,
  context: LoopContext,
): Promise<RunState> {
  if (!resumed) return newState(context);
  completeRollbacks(directory);
  const found = readCheckpointState(directory);
  if (found !== null) return restoreRun(directory, found.step, context);
  refuseBrokenFork(directory);
  return newState(context);
}

/** Settings that weights and optimiser of a checkpoint depend on. */
const FIXED = ['model', 'loraRank', 'loraAlpha', 'targetModules'] as const;

/** Refuses a fork that cannot go on from its checkpoint. */
export function checkFork(source: RunDirectory, at: number, before: Config, config: Config): void {
  const steps = source.checkpointSteps();
  if (!steps.includes(at)) {
    const known = steps.length === 0 ? 'it has none' : `it has ${steps.join(', ')}`;
    throw new AcoerError('BAD_CONFIG', `${source.path} has no checkpoint of step ${at} (${known}).`);
  }
  if (config.maxSteps <= at) {
    throw new AcoerError('BAD_CONFIG', `maxSteps is ${config.maxSteps}: a fork at step ${at} needs more.`);
  }
  const changed = FIXED.find((name) => JSON.stringify(config[name]) !== JSON.stringify(before[name]));
  if (changed === undefined) return;
  throw new AcoerError(
    'BAD_CONFIG',
    `A fork goes on with the weights of its checkpoint, so ${changed} cannot change.`,
  );
}

/** The state a fork begins with: the checkpoint's; rewards that it does not know begin afresh. */
export async function forkState(source: RunDirectory, at: number, context: LoopContext): Promise<RunState> {
  const state = await checkpointState(source, at, context);
  const fresh = newState(context).loop.rewardStates;
  const known = Object.entries(state.loop.rewardStates).filter(([name]) => name in fresh);
  const loop = { ...state.loop, rewardStates: { ...fresh, ...Object.fromEntries(known) } };
  return { ...state, loop, guard: { ...state.guard, healthy: null } };
}
