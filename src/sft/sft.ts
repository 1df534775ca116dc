/** `sft`: supervised fine-tuning in one call. */
import { needFunction, needObject, needSignal } from '../base/border';
import { memoryName } from '../data';
import { beginRun, Teller } from '../life/begin';
import type { RunDriver } from '../life/driver';
import type { SftEvent, SftSummary } from '../life/events';
import { setUpError } from '../life/life';
import type { MadeStep } from '../life/method';
import { EVALUATION_ROWS, ROWS } from '../life/names';
import { openNew, openResumed } from '../life/opening';
import { checkSinks } from '../life/sinks';
import type { Sink } from '../life/sink';
import type { Patience } from '../run';
import type { Row } from '../base/types';
import type { SftInput } from './config';
import type { SftOpenOptions } from './inputs';
import { openSftModel } from './opened';
import { finishedSft, SFT, type SftAsked } from './opening';
import { startSft } from './work';

/** The settings of docs/sft.md, and how to run. */
export interface SftOptions extends Omit<SftInput, 'dataset' | 'evalDataset' | 'sinks'> {
  /** A name, a file, a folder, or the rows themselves. */
  dataset?: string | readonly Row[];
  /** Given like `dataset`; null: examples held out from it. */
  evalDataset?: string | null | readonly Row[];
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
  /** Start even if the plan says the run will not fit in memory. Default false: BAD_CONFIG before loading. */
  ignorePlan?: boolean;
  /** How long to wait for space on a full disk. */
  patience?: Patience;
}

const isRows = (value: unknown): value is readonly Row[] => Array.isArray(value);

function askedOf(options: SftOptions, fetching: SftOpenOptions): SftAsked {
  const {
    dataset,
    evalDataset,
    sinks,
    trust = false,
    out: _out,
    resume: _resume,
    signal: _signal,
    onEvent: _onEvent,
    hangGraceMs: _hangGraceMs,
    exitWhenBlocked: _exitWhenBlocked,
    patience: _patience,
    ignorePlan: _ignorePlan,
    ...rest
  } = options;
  const modules = sinks?.filter((sink) => typeof sink === 'string');
  const settings: SftInput = {
    ...rest,
    ...(modules && { sinks: modules }),
    ...(dataset !== undefined && { dataset: isRows(dataset) ? memoryName(ROWS) : dataset }),
    ...(evalDataset !== undefined && {
      evalDataset: isRows(evalDataset) ? memoryName(EVALUATION_ROWS) : evalDataset,
    }),
  };
  const rows = {
    ...(isRows(dataset) && { rows: dataset }),
    ...(isRows(evalDataset) && { evalRows: evalDataset }),
  };
  return { settings, ...rows, fetching, trust };
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

/** Ends the steps that are left. */
async function summaryOf<Step extends MadeStep>(driver: RunDriver<Step, SftSummary>): Promise<SftSummary> {
  const steps = driver.drive();
  for (;;) {
    const next = await steps.next();
    if (next.done === true) return next.value;
  }
}

/** Opens the run, and makes its steps. @param loading ends it before its first step */
async function run(
  options: SftOptions,
  loading: AbortSignal,
  hold: (driver: { stop(): void }) => void,
): Promise<SftSummary> {
  const { out, resume, onEvent } = options;
  const teller = new Teller<SftEvent>(onEvent);
  const { tell, warn } = teller;
  const asked = askedOf(options, {
    signal: loading,
    onProgress: (progress) => tell({ type: 'download', ...progress }),
    onNotice: warn,
    onEncoded: everySecond((done, total) => tell({ type: 'encoding', done, total })),
  });
  const finished = resume === undefined ? null : finishedSft(resume, asked);
  if (finished !== null) {
    warn(`${resume} has made all of its ${finished.run.steps} steps: nothing is left to do.`);
    return finished;
  }
  const opening = await (
    resume === undefined ? openNew(SFT, out, asked) : openResumed(SFT, resume, asked, warn)
  ).catch((error: unknown) => {
    throw setUpError(error, loading);
  });
  const { directory, config, resumed, checkpoint, inputs } = opening;
  const announce = () => {
    const resumedStep = resumed ? (checkpoint?.step ?? 0) : null;
    const { length: examples } = inputs.examples;
    tell({ type: 'run', directory: directory.path, resumedStep, examples, steps: config.maxSteps });
  };
  const driver = await beginRun(SFT, opening, { ...options, signal: loading }, teller, {
    announce,
    load: (life) => openSftModel(opening, life, options.ignorePlan === true),
    start: startSft,
  });
  hold(driver);
  return summaryOf(driver);
}

/**
 * Trains a LoRA adapter on completions: a warm start before `train`. Resolves with the run's summary.
 *
 * @throws BAD_CONFIG, BAD_INPUT, HUB, RUN_EXISTS, RUN_LOCKED before anything is loaded; INTERRUPTED after
 * `signal`; HUNG; LOAD_FAILED, DEVICE, ... from the engine
 */
export async function sft(options: SftOptions): Promise<SftSummary> {
  needObject('the options of sft()', options);
  const { signal, onEvent, sinks } = options;
  needSignal('signal', signal);
  if (onEvent !== undefined) needFunction('onEvent', onEvent);
  checkSinks(sinks);
  // Ends the loading at once, but a run that has begun after the step in progress.
  const loading = new AbortController();
  let driver: { stop(): void } | null = null;
  const stop = () => (driver === null ? loading.abort(signal?.reason) : driver.stop());
  signal?.addEventListener('abort', stop, { once: true });
  if (signal?.aborted === true) stop();
  try {
    return await run(options, loading.signal, (begun) => (driver = begun));
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}
