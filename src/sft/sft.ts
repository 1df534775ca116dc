/** `sft`: supervised fine-tuning in one call. */
import { needFunction, needObject, needSignal } from '../border';
import { AcoerError } from '../errors';
import { memoryName } from '../data';
import { discardRunDirectory } from '../run';
import { ROWS } from '../train/plain';
import type { Row } from '../types';
import type { SftInput } from './config';
import type { SftEvent, SftSummary } from './events';
import type { SftOpenOptions } from './inputs';
import {
  finishedSft,
  openNewSft,
  openResumedSft,
  openSftModel,
  type SftAsked,
  type SftOpening,
} from './opened';
import { SftDriver } from './run';

/** The settings of docs/sft.md, and how to run. */
export interface SftOptions extends Omit<SftInput, 'dataset'> {
  /** A name, a file, a folder, or the rows themselves. */
  dataset?: string | readonly Row[];
  /** The run's folder. Default: runs/<date>-<name>. */
  out?: string;
  /** Folder of a run to resume under its own configuration; some settings may be changed. */
  resume?: string;
  /** Ends the run with INTERRUPTED and a checkpoint within seconds. */
  signal?: AbortSignal;
  onEvent?: (event: SftEvent) => void;
}

function askedOf(options: SftOptions, fetching: SftOpenOptions): SftAsked {
  const { dataset, out: _out, resume: _resume, signal: _signal, onEvent: _onEvent, ...rest } = options;
  if (dataset === undefined || typeof dataset === 'string') {
    return { settings: { ...rest, ...(dataset !== undefined && { dataset }) }, fetching };
  }
  return { settings: { ...rest, dataset: memoryName(ROWS) }, rows: dataset, fetching };
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

/** A run that is aborted while it is set up ends like any aborted run. */
function setUpError(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted !== true) return error;
  return new AcoerError('INTERRUPTED', 'Interrupted while the run was being set up.', { cause: error });
}

async function startDriver(
  opening: SftOpening,
  emit: (event: SftEvent) => void,
  signal: AbortSignal | undefined,
): Promise<SftDriver> {
  const { directory, resumed } = opening;
  try {
    const run = await openSftModel(opening, emit, signal);
    const { dtype, device, parameterCount: parameters } = run.model.info;
    const trained = run.policy.info.parameterCount;
    emit({ type: 'loaded', model: run.config.model, parameters, trained, device, dtype });
    try {
      return await SftDriver.start(run, signal);
    } catch (error) {
      await run.close();
      throw error;
    }
  } catch (error) {
    if (resumed) directory.lock?.release();
    else discardRunDirectory(directory);
    throw setUpError(error, signal);
  }
}

/**
 * Trains a LoRA adapter on completions: a warm start before `train`. Resolves with the run's summary.
 *
 * @throws BAD_CONFIG, BAD_INPUT, HUB, RUN_EXISTS, RUN_LOCKED before anything is loaded; INTERRUPTED after
 * `signal`; LOAD_FAILED, DEVICE, ... from the engine
 */
export async function sft(options: SftOptions): Promise<SftSummary> {
  needObject('the options of sft()', options);
  needSignal('signal', options.signal);
  if (options.onEvent !== undefined) needFunction('onEvent', options.onEvent);
  const { out, resume, signal, onEvent } = options;
  const emit = (event: SftEvent) => onEvent?.(event);
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
  const { directory, config, resumed, checkpoint, inputs } = opening;
  const resumedStep = resumed ? (checkpoint?.step ?? 0) : null;
  const { length: examples } = inputs.examples;
  emit({ type: 'run', directory: directory.path, resumedStep, examples, steps: config.maxSteps! });
  const driver = await startDriver(opening, emit, signal);
  return driver.drive();
}
