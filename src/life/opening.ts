/** Opening a run's directory, new or to resume: everything that is settled before a model is loaded. */
import {
  completeRollbacks,
  createRunDirectory,
  findCheckpoint,
  newRunPath,
  openRunDirectory,
  readRunDirectory,
  refuseBrokenFork,
  type AcceptedChange,
} from '../run';
import { allowedChanges } from './changes';
import type { Asked, LifeSettings, Method, Opening } from './method';
import { admitModules, rememberModules } from './modules/named-modules';

const noticeOf =
  ({ fetching }: Asked) =>
  (message: string): void =>
    fetching.onNotice?.(message);

export async function openNew<Settings extends LifeSettings, Inputs, Given extends Asked>(
  method: Method<Settings, Inputs, Given>,
  out: string | undefined,
  asked: Given,
): Promise<Opening<Settings, Inputs>> {
  const resolved = method.resolve(asked);
  await rememberModules(method.modules(resolved), noticeOf(asked));
  return openIn(method, out, await method.lasting(resolved, asked), asked);
}

/** A new directory for a run under `wanted`. */
export async function openIn<Settings extends LifeSettings, Inputs, Given extends Asked>(
  method: Method<Settings, Inputs, Given>,
  out: string | undefined,
  wanted: Settings,
  asked: Given,
): Promise<Opening<Settings, Inputs>> {
  const inputs = await method.openInputs(wanted, asked);
  return orClose(method, inputs, () => {
    const config = method.pinned(wanted, inputs, asked);
    const directory = createRunDirectory(out ?? newRunPath('runs', method.nameOf(config, inputs)), config);
    return { directory, config, inputs, resumed: false, checkpoint: null, accepted: [] };
  });
}

/** Checks the modules that the run in `path` names under `wanted`. @throws BAD_INPUT, BAD_CONFIG */
export function admitRun<Settings extends LifeSettings, Inputs, Given extends Asked>(
  method: Method<Settings, Inputs, Given>,
  path: string,
  wanted: Settings,
  asked: Given,
  compare?: () => Promise<void>,
): Promise<void> {
  const { trust, acceptChanged = [] } = asked;
  const changedRewards = acceptChanged.includes('reward');
  const trusted = { named: method.named(asked), trust, changedRewards, compare };
  return admitModules(path, method.modules(wanted), trusted, noticeOf(asked));
}

/**
 * Locks the run and finds the checkpoint to continue from.
 * @param warn gets one sentence for each changed setting
 * @throws BAD_CONFIG for a change that is not allowed
 */
export async function openResumed<Settings extends LifeSettings, Inputs, Given extends Asked>(
  method: Method<Settings, Inputs, Given>,
  path: string,
  asked: Given,
  warn: (message: string) => void,
): Promise<Opening<Settings, Inputs>> {
  const { stored, wanted } = method.resolveOver(readRunDirectory(path), asked);
  const directory = openRunDirectory(path);
  try {
    completeRollbacks(directory);
    const checkpoint = await findCheckpoint(directory, warn);
    if (checkpoint === null) refuseBrokenFork(directory);
    const before = checkpoint === null ? stored : method.resolveStored(checkpoint, asked);
    const step = checkpoint?.step ?? 0;
    const compared = checkpoint !== null && method.comparesFiles(checkpoint);
    for (const change of allowedChanges(method.changeable, before, wanted, path, step, compared))
      warn(change);
    let accepted: AcceptedChange[] = [];
    await admitRun(method, path, wanted, asked, async () => {
      if (checkpoint === null) return;
      accepted = (await method.checkModules?.(path, checkpoint, wanted, asked)) ?? [];
    });
    const inputs = await method.openInputs(wanted, asked);
    const config = await orClose(method, inputs, () => {
      if (checkpoint !== null) method.checkInputs(path, checkpoint, inputs, wanted);
      return method.pinned(wanted, inputs, asked);
    });
    return { directory, config, inputs, resumed: true, checkpoint, accepted };
  } catch (error) {
    directory.lock?.release();
    throw error;
  }
}

/** Closes `inputs` when `work` throws. */
export async function orClose<Inputs, T>(
  { closeInputs }: { closeInputs: (inputs: Inputs) => Promise<void> },
  inputs: Inputs,
  work: () => T,
): Promise<T> {
  try {
    return work();
  } catch (error) {
    await closeInputs(inputs);
    throw error;
  }
}

/** The settings of a run that has made all of its steps, and wants no more; null: there are steps left. */
export function finishedSettings<Settings extends LifeSettings, Inputs, Given extends Asked>(
  method: Method<Settings, Inputs, Given>,
  path: string,
  asked: Given,
): Settings | null {
  const directory = readRunDirectory(path);
  const { stored, wanted } = method.resolveOver(directory, asked);
  const { maxSteps } = stored;
  if (maxSteps === null || !directory.finished(maxSteps) || (wanted.maxSteps ?? 0) > maxSteps) return null;
  allowedChanges(method.changeable, stored, wanted, path, maxSteps, true);
  // The process was killed after writing the summary: remove the stale lock.
  if (directory.isLocked()) openRunDirectory(path).lock?.release();
  return stored;
}
