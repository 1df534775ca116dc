/**
 * Groups in flight (`groupsInFlight`): which of them a step trains on. They wait in the order of their prompts, oldest
 * first, and are trained on in the order in which they become complete, but none later than `maxStaleness` allows.
 */
import { groupsPerBatch, updatesPerBatch } from './batches';

/** Settings of a run that say which groups it trains on when. */
export interface QueueSettings {
  /** Most groups in flight; null: every batch samples its own. */
  groupsInFlight: number | null;
  maxStaleness: number;
  promptsPerStep: number;
  stepsPerGeneration: number;
  numIterations: number;
  maxSteps: number;
}

/** What the order depends on. */
interface Waiting {
  /** The number of updates when the group began: no token of it is older. */
  begun: number;
  /** Its place in the order of completion; null: it is not complete. */
  completed: number | null;
}

/** Batches after the one of `step` that a group begun then may still wait for. */
const patience = (config: QueueSettings, step: number, begun: number): number =>
  Math.floor((config.maxStaleness - (step - begun)) / updatesPerBatch(config));

/** How many groups begin in the generation of `step`: no more than are trained on before the run ends. */
export function groupsToBegin(config: QueueSettings, step: number, inFlight: number): number {
  const batch = groupsPerBatch(config);
  const batches = Math.ceil((config.maxSteps - step) / updatesPerBatch(config));
  return Math.max(0, Math.min(config.groupsInFlight!, batches * batch) - inFlight);
}

/**
 * For each i, how many of the groups 0 to i this batch must take, so that the others can wait: those that would be too
 * stale for the batch after the next k must fit into k batches. The last is the whole batch.
 */
export function groupsNeeded(
  config: QueueSettings,
  step: number,
  groups: readonly Pick<Waiting, 'begun'>[],
): Int32Array {
  const batch = groupsPerBatch(config);
  const needed = groups.map(({ begun }, i) => Math.max(0, i + 1 - batch * patience(config, step, begun)));
  return Int32Array.from(needed, (count, i) => (i === groups.length - 1 ? batch : count));
}

/** The groups that are trained on, in the order in which they became complete. */
export function nextBatch<Group extends Pick<Waiting, 'completed'>>(
  groups: readonly Group[],
  needed: Int32Array,
): Group[] {
  const taken = new Set<Group>();
  const inOrder = (among: readonly Group[]) =>
    among.filter(({ completed }) => completed !== null).sort((a, b) => a.completed! - b.completed!);
  needed.forEach((count, i) => {
    const older = groups.slice(0, i + 1);
    const missing = count - older.filter((group) => taken.has(group)).length;
    const rest = inOrder(older).filter((group) => !taken.has(group));
    rest.slice(0, Math.max(0, missing)).forEach((group) => taken.add(group));
  });
  return inOrder([...taken]);
}
