/** From an opened folder to a run that is ready for its first step. */
import type { RunOptions } from './call';
import type { CommonEvent, RunEvent } from './events';
import { RunDriver } from './driver';
import { leaveDirectory, startLife, type Life } from './life';
import type { Loaded } from './loading';
import {
  resumeCommand,
  type Asked,
  type LifeSettings,
  type MadeStep,
  type Method,
  type Opening,
  type Work,
} from './method';
import { trackers } from './own-sinks';
import { openSinks, type Sinks } from './sinks';
import { writeJsonAtomic } from '../run';

type BeginOptions = Pick<RunOptions, 'sinks' | 'signal' | 'patience' | 'hangGraceMs' | 'exitWhenBlocked'>;

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
export interface Beginning<
  Settings,
  Inputs,
  Event extends RunEvent,
  Model extends Loaded,
  Step extends MadeStep,
  Summary,
> {
  /** Tells of the opened run, before anything is loaded. */
  announce: () => void;
  load: (life: Life<Event>) => Promise<Model>;
  start: (run: Opening<Settings, Inputs> & Model & Life<Event>) => Promise<Work<Step, Summary>>;
}

/** The trackers and the user's sinks; gives the folder back when that fails. */
async function openOwnSinks<Settings extends LifeSettings, Inputs, Given extends Asked>(
  method: Method<Settings, Inputs, Given>,
  { directory, config, inputs, resumed }: Opening<Settings, Inputs>,
  { sinks = [], signal }: BeginOptions,
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

/** Opens sinks, loads the model and restores the state; on failure closes what was opened. */
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
  { announce, load, start }: Beginning<Settings, Inputs, NoInfer<Event>, Model, Step, Summary>,
): Promise<RunDriver<Step, Summary>> {
  const { directory, config, resumed } = opening;
  const sinks = await openOwnSinks(method, opening, options, teller.warn);
  teller.sinks = sinks;
  announce();
  const { signal, patience, hangGraceMs: graceMs, exitWhenBlocked } = options;
  const resume = resumeCommand(method, directory.path);
  const about = { directory, config, resumed, sinks, tell: teller.tell, signal, patience };
  const parts = { ...about, graceMs, exitWhenBlocked, silences: method.silences(config), resume };
  return startLife<Event, Model, RunDriver<Step, Summary>>(parts, load, async (life, model) => {
    const run = { ...opening, ...model, ...life };
    const work = await start(run);
    if (resumed) writeJsonAtomic(directory.config(), config);
    return RunDriver.start(run, work, resume);
  });
}
