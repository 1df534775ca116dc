/** `sft`: supervised fine-tuning in one call. */
import { needFunction, needObject, needSignal } from '../border';
import { memoryName } from '../data';
import { trackerTag } from '../metric-names';
import { writeJsonAtomic, type Patience } from '../run';
import type { SftEvent, SftSummary } from '../life/events';
import { leaveDirectory, setUpError, startLife } from '../life/life';
import { trackers } from '../life/own-sinks';
import { ROWS } from '../train/plain';
import { checkSinks, openSinks, type Sink, type Sinks } from '../life/sinks';
import type { Row } from '../types';
import type { SftInput } from './config';
import type { SftOpenOptions } from './inputs';
import {
  finishedSft,
  openNewSft,
  openResumedSft,
  openSftModel,
  type SftAsked,
  type SftModel,
  type SftOpening,
} from './opened';
import { resumeCommand, SftDriver } from './run';
import { silencesOf } from './silences';

/** The settings of docs/sft.md, and how to run. */
export interface SftOptions extends Omit<SftInput, 'dataset' | 'sinks'> {
  /** A name, a file, a folder, or the rows themselves. */
  dataset?: string | readonly Row[];
  /** Where the run's numbers go besides its own files: objects, or modules as in a configuration. */
  sinks?: readonly (Sink | string)[];
  /** The run's folder. Default: runs/<date>-<name>. */
  out?: string;
  /** Folder of a run to resume under its own configuration; some settings may be changed. */
  resume?: string;
  /** With `resume`: load the sinks in files that the run names, although nobody named them on this machine. */
  trust?: boolean;
  /** Ends the run with INTERRUPTED and a checkpoint within seconds. */
  signal?: AbortSignal;
  onEvent?: (event: SftEvent) => void;
  /** As for `train`: how long a cancelled, hung call may take to return before the run ends without it. */
  hangGraceMs?: number;
  /** As for `train`: ends this process when its main thread is blocked for too long. */
  exitWhenBlocked?: boolean;
  /** How long to wait for space on a full disk. */
  patience?: Patience;
}

function askedOf(options: SftOptions, fetching: SftOpenOptions): SftAsked {
  const {
    dataset,
    sinks,
    trust = false,
    out: _out,
    resume: _resume,
    signal: _signal,
    onEvent: _onEvent,
    hangGraceMs: _hangGraceMs,
    exitWhenBlocked: _exitWhenBlocked,
    patience: _patience,
    ...rest
  } = options;
  const modules = sinks?.filter((sink) => typeof sink === 'string');
  const settings = { ...rest, ...(modules && { sinks: modules }) };
  if (dataset === undefined) return { settings, fetching, trust };
  if (typeof dataset === 'string') return { settings: { ...settings, dataset }, fetching, trust };
  return { settings: { ...settings, dataset: memoryName(ROWS) }, rows: dataset, fetching, trust };
}

/** Calls `report` at most once a second, and not within the first. */
function everySecond(report: (done: number, total: number) => void): SftOpenOptions['onEncoded'] {
  let last = performance.now();
  return (done, total) => {
    if (performance.now() - last < 1_000) return;
    last = performance.now();
    report(done, total);
  };
}

/** Loads the model of a run whose directory is open, and starts it; on failure closes what was opened. */
function startDriver(
  opening: SftOpening,
  { signal, patience, hangGraceMs: graceMs, exitWhenBlocked }: SftOptions,
  tell: (event: SftEvent) => void,
  sinks: Sinks,
): Promise<SftDriver> {
  const { directory, config, resumed } = opening;
  const about = { directory, config, resumed, sinks, tell, signal, patience, graceMs, exitWhenBlocked };
  const parts = { ...about, silences: silencesOf(config), resume: resumeCommand(directory.path) };
  return startLife<SftEvent, SftModel, SftDriver>(
    parts,
    (life) => openSftModel(opening, life),
    async (life, model) => {
      const { dtype, device, parameterCount: parameters } = model.model.info;
      const trained = model.policy.info.parameterCount;
      life.emit({ type: 'loaded', model: config.model, parameters, trained, device, dtype });
      if (resumed) writeJsonAtomic(directory.config(), config);
      return SftDriver.start({ ...opening, ...model, ...life });
    },
  );
}

/** The run's trackers and sinks; closes the directory when that fails. */
async function openSftSinks(
  { directory, config, resumed }: SftOpening,
  { sinks = [], signal }: SftOptions,
  warn: (message: string) => void,
): Promise<Sinks> {
  try {
    const own = trackers(directory, config, [trackerTag('loss')]);
    return await openSinks(own, sinks, { directory: directory.path, config }, warn, signal);
  } catch (error) {
    leaveDirectory(directory, resumed);
    throw error;
  }
}

/**
 * Trains a LoRA adapter on completions: a warm start before `train`. Resolves with the run's summary.
 *
 * @throws BAD_CONFIG, BAD_INPUT, HUB, RUN_EXISTS, RUN_LOCKED before anything is loaded; INTERRUPTED after
 * `signal`; HUNG; LOAD_FAILED, DEVICE, ... from the engine
 */
export async function sft(options: SftOptions): Promise<SftSummary> {
  needObject('the options of sft()', options);
  needSignal('signal', options.signal);
  if (options.onEvent !== undefined) needFunction('onEvent', options.onEvent);
  checkSinks(options.sinks);
  const { out, resume, signal, onEvent } = options;
  let sinks: Sinks | null = null;
  const emit = (event: SftEvent) => {
    onEvent?.(event);
    sinks?.event(event);
  };
  const warn = (message: string) => emit({ type: 'warning', message });
  const asked = askedOf(options, {
    signal,
    onProgress: (progress) => emit({ type: 'download', ...progress }),
    onNotice: warn,
    onEncoded: everySecond((done, total) => emit({ type: 'encoding', done, total })),
  });
  const finished = resume === undefined ? null : finishedSft(resume, asked.settings);
  if (finished !== null) {
    warn(`${resume} has made all of its ${finished.run.steps} steps: nothing is left to do.`);
    return finished;
  }
  const opening = await (
    resume === undefined ? openNewSft(out, asked) : openResumedSft(resume, asked, warn)
  ).catch((error: unknown) => {
    throw setUpError(error, signal);
  });
  sinks = await openSftSinks(opening, options, warn);
  const { directory, config, resumed, checkpoint, inputs } = opening;
  const resumedStep = resumed ? (checkpoint?.step ?? 0) : null;
  const { length: examples } = inputs.examples;
  emit({ type: 'run', directory: directory.path, resumedStep, examples, steps: config.maxSteps });
  const driver = await startDriver(opening, options, emit, sinks);
  return driver.drive();
}
