/** What every kind of run lives with: a watchdog, progress.json and sinks, from loading its model to its end. */
import { AcoerError } from '../base/errors';
import { NO_WATCH } from '../grpo/watch';
import { discardRunDirectory, type Patience, type RunDirectory } from '../run';
import type { CommonEvent, RunEvent } from './events';
import { Halt } from './halt';
import type { Loaded } from './loading';
import { Progress } from './progress';
import type { Sinks } from './sinks';
import { Watchdog, type WatchdogParts } from './watchdog';

export interface Life<Event> {
  directory: RunDirectory;
  watchdog: Watchdog;
  progress: Progress;
  sinks: Sinks;
  emit: (event: Event | CommonEvent) => void;
  halt: Halt;
  signal?: AbortSignal | undefined;
  /** How long to wait for space on a full disk. */
  patience?: Patience | undefined;
}

export interface LifeParts<Event> extends Pick<
  WatchdogParts,
  'silences' | 'resume' | 'graceMs' | 'exitWhenBlocked'
> {
  directory: RunDirectory;
  config: WatchdogParts['config'] & { maxSteps: number };
  /** The folder was there before. */
  resumed: boolean;
  sinks: Sinks;
  tell: (event: Event | CommonEvent) => void;
  signal?: AbortSignal | undefined;
  patience?: Patience | undefined;
}

/** A run that is aborted while it is opened or loads ends like any aborted run. */
export function setUpError(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted !== true) return error;
  return new AcoerError('INTERRUPTED', 'Interrupted while the run was being set up.', { cause: error });
}

/** Gives a directory back after a failure. @param stays false: nothing has begun in it, so it is removed */
export function leaveDirectory(directory: RunDirectory, stays: boolean): void {
  if (stays) directory.lock?.release();
  else discardRunDirectory(directory);
}

function lifeOf<Event extends RunEvent>(parts: LifeParts<Event>): Life<Event> {
  const { directory, config, sinks, tell, signal, patience, silences, resume } = parts;
  const { graceMs, exitWhenBlocked } = parts;
  const progress = new Progress(directory, config.maxSteps, (message) => tell({ type: 'warning', message }));
  const emit = (event: Event | CommonEvent) => {
    progress.event(event);
    tell(event);
  };
  const onPhase: WatchdogParts['onPhase'] = (phase, step) => progress.enter(phase, step);
  const about = { config, directory, silences, resume, emit, onPhase, graceMs, exitWhenBlocked };
  const watchdog = new Watchdog(about);
  sinks.watch = watchdog;
  const halt = new Halt(signal);
  sinks.ending = halt.waiting;
  return { directory, watchdog, progress, sinks, emit, halt, signal, patience };
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
 * Loads the model of a run whose directory is open, and starts it; on failure closes what was opened, and removes a
 * directory in which nothing has begun.
 */
export async function startLife<Event extends RunEvent, Model extends Loaded, Driver>(
  parts: LifeParts<Event>,
  load: (life: Life<Event>) => Promise<Model>,
  start: (life: Life<Event>, model: Model) => Promise<Driver>,
): Promise<Driver> {
  const { directory, resumed, sinks, signal } = parts;
  const life = lifeOf(parts);
  const { watchdog, progress } = life;
  let model: Model | null = null;
  try {
    model = await loadWatched(watchdog, () => load(life));
    return await start(life, model);
  } catch (error) {
    life.halt.dispose();
    await model?.close(!watchdog.abandoned);
    if (watchdog.abandoned) sinks.watch = NO_WATCH;
    await sinks.close();
    watchdog.close();
    const stays = resumed || model !== null;
    await progress.end(!stays ? null : signal?.aborted === true ? 'interrupted' : 'failed');
    leaveDirectory(directory, stays);
    throw setUpError(error, signal);
  }
}
