/** From an opened folder to a run that is ready for its first step. */
import { AcoerError, errorMessage } from '../base/errors';
import { NO_WATCH } from '../grpo/watch';
import { discardRunDirectory, writeJsonAtomic, type RunDirectory } from '../run';
import type { RunOptions } from './call';
import { RunDriver } from './driver';
import type { CommonEvent, RunEvent } from './events';
import { lifeOf, type Life } from './life';
import type { Loaded } from './policy';
import {
  resumeCommand,
  type Asked,
  type LifeSettings,
  type MadeStep,
  type Method,
  type Opening,
  type Work,
} from './method';
import { trackers, openSinks, type Sinks } from './sinks';
import type { Watchdog } from './watchdog';

type Held = Pick<RunOptions, 'sinks' | 'signal' | 'patience' | 'hangGraceMs' | 'exitWhenBlocked'>;

interface BeginOptions extends Held {
  /** The address that is told what becomes of the run. */
  notify: string | null;
}

/** Tells the caller what happens and, once they are open, the sinks. */
export class Teller<Event extends RunEvent> {
  sinks: Sinks | null = null;

  constructor(private readonly onEvent: ((event: Event) => void) | undefined) {}

  readonly tell = (event: Event | CommonEvent): void => {
    this.onEvent?.(event as Event);
    this.sinks?.event(event);
  };

  readonly warn = (message: string): void => this.tell({ type: 'warning', message });
}

/** What a method does with a run whose folder is open. */
interface Beginning<Opened, Event extends RunEvent, Model extends Loaded, Step extends MadeStep, Summary> {
  /** Tells of the opened run, before anything is loaded. */
  announce: () => void;
  load: (life: Life<Event>) => Promise<Model>;
  start: (run: Opened & Model & Life<Event>) => Promise<Work<Step, Summary>>;
}

/** A run that is aborted while it is opened or loads ends like any aborted run. */
export function setUpError(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted !== true) return error;
  return new AcoerError('INTERRUPTED', 'Interrupted while the run was being set up.', { cause: error });
}

/** Gives a directory back after a failure. @param stays false: nothing has begun in it, so it is removed */
function leaveDirectory(directory: RunDirectory, stays: boolean): void {
  if (stays) directory.lock?.release();
  else discardRunDirectory(directory);
}

/** The trackers and the user's sinks; gives the folder back when that fails. */
async function openOwnSinks<Settings extends LifeSettings, Inputs, Given extends Asked>(
  method: Method<Settings, Inputs, Given>,
  { directory, config, inputs, resumed }: Opening<Settings, Inputs>,
  { sinks = [], signal }: Held,
  warn: (message: string) => void,
): Promise<Sinks> {
  try {
    const own = trackers(directory, config, method.judgedBy(config));
    return await openSinks(own, sinks, { directory: directory.path, config }, warn, signal);
  } catch (error) {
    await method.closeInputs(inputs);
    leaveDirectory(directory, resumed);
    throw error;
  }
}

/** Loads as the phase `loading`; what arrives after the watchdog gave up is closed. */
async function loadWatched<Model extends Loaded>(
  watchdog: Watchdog,
  load: () => Promise<Model>,
): Promise<Model> {
  const loading = load();
  try {
    return await watchdog.phase('loading', () => loading);
  } catch (error) {
    const ignore = () => undefined;
    if (watchdog.abandoned) void loading.then((late) => late.close(true)).catch(ignore);
    throw error;
  }
}

/**
 * Opens sinks, loads the model and restores the state; on failure closes what was opened, and removes a directory in
 * which nothing has begun.
 */
export async function beginRun<
  Settings extends LifeSettings,
  Inputs,
  Given extends Asked,
  Event extends RunEvent,
  Model extends Loaded,
  Step extends MadeStep,
  Summary,
>(
  method: Method<Settings, Inputs, Given>,
  opening: Opening<Settings, Inputs>,
  options: BeginOptions,
  teller: Teller<Event>,
  beginning: Beginning<Opening<Settings, Inputs>, NoInfer<Event>, Model, Step, Summary>,
): Promise<RunDriver<Step, Summary>> {
  const { directory, config, resumed } = opening;
  const sinks = await openOwnSinks(method, opening, options, teller.warn);
  teller.sinks = sinks;
  beginning.announce();
  const { signal, patience, hangGraceMs: graceMs, exitWhenBlocked } = options;
  const resume = resumeCommand(method, directory.path);
  const watched = { config, silences: method.silences(config), resume, graceMs, exitWhenBlocked };
  const parts = { directory, sinks, signal, patience };
  const life = lifeOf<Event>(parts, teller.tell, watched, config.maxSteps, options.notify);
  const { watchdog, progress, notifier } = life;
  let model: Model | null = null;
  let began = false;
  try {
    model = await loadWatched(watchdog, () => beginning.load(life));
    const run = { ...opening, ...model, ...life };
    const work = await beginning.start(run);
    began = true;
    if (resumed) writeJsonAtomic(directory.config(), config);
    return await RunDriver.start(run, work, resume);
  } catch (error) {
    life.halt.dispose();
    await model?.close(!watchdog.abandoned);
    if (watchdog.abandoned) sinks.watch = NO_WATCH;
    const ending = setUpError(error, signal);
    const outcome = signal?.aborted === true ? 'interrupted' : 'failed';
    await notifier.end(
      outcome,
      opening.checkpoint?.step ?? 0,
      () => `It could not begin. ${errorMessage(ending)}`,
    );
    await sinks.close();
    watchdog.close();
    const stays = resumed || began;
    await progress.end(stays ? outcome : null);
    leaveDirectory(directory, stays);
    throw ending;
  }
}
