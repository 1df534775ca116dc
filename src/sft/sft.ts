/** `sft`: supervised fine-tuning in one call. */
import { memoryName } from '../data';
import { beginRun, setUpError, Teller } from '../life/begin';
import { checkCall, OWN_FORMS, RUN_OPTIONS, type CallForm, type RunOptions } from '../life/call';
import { badUsage } from '../base/errors';
import type { RunDriver } from '../life/driver';
import { launchOf } from '../ranks';
import { apartFromAddress, nobodyTold } from '../life/notifier';
import type { SftEvent, SftSummary } from '../life/events';
import type { MadeStep } from '../life/method';
import { EVALUATION_ROWS, ROWS } from '../life/names';
import { openNew, openResumed } from '../life/opening';
import type { Row } from '../base/types';
import { SFT_KEYS, type SftInput } from './config';
import type { SftOpenOptions } from './inputs';
import { openSftModel } from './opened';
import { startSft } from './work';
import { finishedSft, SFT, type SftAsked } from './opening';

/** How to run, and data of this process. One with the name of a setting is used instead of that. */
export interface SftOptions extends RunOptions<SftEvent> {
  /** The rows to train on. */
  dataset?: readonly Row[] | undefined;
  /** The rows to evaluate on. */
  evalDataset?: readonly Row[] | undefined;
}

const { rows, objects } = OWN_FORMS;

export const SFT_CALL: CallForm = {
  call: 'sft',
  settings: SFT_KEYS,
  options: RUN_OPTIONS,
  own: { dataset: rows, evalDataset: rows, sinks: objects },
};

function askedOf(
  settings: SftInput,
  { dataset, evalDataset, trust = false }: SftOptions,
  fetching: SftOpenOptions,
): SftAsked {
  return {
    settings: {
      ...settings,
      ...(dataset && { dataset: memoryName(ROWS) }),
      ...(evalDataset && { evalDataset: memoryName(EVALUATION_ROWS) }),
    },
    ...(dataset && { rows: dataset }),
    ...(evalDataset && { evalRows: evalDataset }),
    fetching,
    trust,
  };
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
  settings: SftInput,
  options: SftOptions,
  loading: AbortSignal,
  hold: (driver: { stop(): void }) => void,
): Promise<SftSummary> {
  if (launchOf(process.env) !== null)
    throw badUsage('A supervised run has one process, and this is one of several: start it alone.');
  const { out, resume, onEvent } = options;
  const teller = new Teller<SftEvent>(onEvent);
  const { tell, warn } = teller;
  const { settings: own, address: notify } = apartFromAddress(settings);
  const asked = askedOf(own, options, {
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
    const untold = nobodyTold(config, notify);
    if (untold !== null) warn(untold);
  };
  const driver = await beginRun(SFT, opening, { ...options, signal: loading, notify }, teller, {
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
 * @param settings those of docs/sft.md; for a run to resume, those to change
 * @throws BAD_ARGUMENT, BAD_CONFIG, BAD_INPUT, HUB, RUN_EXISTS, RUN_LOCKED before anything is loaded; INTERRUPTED after
 * `signal`; HUNG; LOAD_FAILED, DEVICE, ... from the engine
 */
export async function sft(settings: SftInput = {}, options: SftOptions = {}): Promise<SftSummary> {
  checkCall(SFT_CALL, settings, options);
  const { signal } = options;
  // Ends the loading at once, but a run that has begun after the step in progress.
  const loading = new AbortController();
  let driver: { stop(): void } | null = null;
  const stop = () => (driver === null ? loading.abort(signal?.reason) : driver.stop());
  signal?.addEventListener('abort', stop, { once: true });
  if (signal?.aborted === true) stop();
  try {
    return await run(settings, options, loading.signal, (begun) => (driver = begun));
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}
