/** What every kind of run lives with: a watchdog, progress.json and sinks, from loading its model to its end. */
import type { Patience, RunDirectory } from '../run';
import type { CommonEvent, RunEvent } from './events';
import { Halt } from './halt';
import { Notifier } from './notifier';
import { Progress } from './progress';
import type { Sinks } from './sinks';
import { Watchdog, type WatchdogParts } from './watchdog';

export interface Life<Event> {
  directory: RunDirectory;
  watchdog: Watchdog;
  progress: Progress;
  sinks: Sinks;
  notifier: Notifier;
  emit: (event: Event | CommonEvent) => void;
  warn: (message: string) => void;
  halt: Halt;
  signal?: AbortSignal | undefined;
  /** How long to wait for space on a full disk. */
  patience?: Patience | undefined;
}

/** @param notify the address that is told what becomes of the run */
export function lifeOf<Event extends RunEvent>(
  run: Pick<Life<Event>, 'directory' | 'sinks' | 'signal' | 'patience'>,
  tell: Life<Event>['emit'],
  watched: Omit<WatchdogParts, 'directory' | 'emit' | 'onPhase'>,
  maxSteps: number,
  notify: string | null,
): Life<Event> {
  const { directory, sinks, signal } = run;
  const warn = (message: string): void => tell({ type: 'warning', message });
  const progress = new Progress(directory, maxSteps, warn);
  const notifier = new Notifier(notify, { directory: directory.path, maxSteps }, warn);
  const emit = (event: Event | CommonEvent) => {
    progress.event(event);
    notifier.event(event);
    tell(event);
  };
  const onPhase: WatchdogParts['onPhase'] = (phase, step) => progress.enter(phase, step);
  const watchdog = new Watchdog({ ...watched, directory, emit, onPhase });
  sinks.watch = watchdog;
  const halt = new Halt(signal);
  sinks.ending = halt.waiting;
  return { ...run, watchdog, progress, notifier, emit, warn, halt };
}
