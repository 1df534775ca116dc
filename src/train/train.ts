/** `train`: the whole of a run behind one call. */
import type { Config, ConfigInput } from '../config';
import type { Engine } from '../engine/types';
import { AcoerError } from '../errors';
import type { ModelFetchOptions } from '../models';
import { discardRunDirectory, writeJsonAtomic, type Patience, type StoredCheckpoint } from '../run';
import type { LoopContext } from '../grpo/context';
import type { RunSummary, TrainEvent, TrainStep } from './events';
import { openFork, type ForkPoint } from './fork';
import { closeRewards, type SessionParts } from './inputs';
import { finishedRun, openNew, openResumed, type Opening } from './opening';
import { RunDriver } from './run';
import { openSession, type Session, type SessionOptions } from './session';
import { loadSinks, Sinks, type Sink } from './sinks';
import { forkState, newState, restoreRun } from './start';
import { startsMonitorOver, storedPart, thisMaker, type RunState } from './state';
import { Watchdog } from './watchdog';

/** Any settings of the configuration, over those of a preset, and how to run. */
export interface TrainOptions extends Omit<ConfigInput, 'sinks'>, SessionParts {
  /**
   * Where the run's numbers go besides its own files: objects, or modules as in a configuration.
   * @default []
   */
  sinks?: readonly (Sink | string)[];
  /** Default: `tiny` for the embedded model, else `paper`. */
  preset?: string;
  /** The run's folder. Default: runs/<date>-<name>. */
  out?: string;
  /** Folder of a run to go on with, as it was configured; some settings may be given anew. */
  resume?: string;
  /** A run, and the step of one of its checkpoints to go on from in a new folder, under the settings given here. */
  fork?: ForkPoint;
  /** What hung has so long to end once it is cancelled; after that the run ends without it. Default 30,000 ms. */
  hangGraceMs?: number;
  /**
   * Ends this process with exit code 1 when its main thread is blocked for as long as the watchdog allows and `onHang` is
   * `stop`: nothing else ends such a run. For programs that are nothing but the run. Default false.
   */
  exitWhenBlocked?: boolean;
  /** How long to wait for space on a full disk. */
  patience?: Patience;
  /** Ends the run at once; what was finished can be resumed. Rejects with INTERRUPTED. */
  signal?: AbortSignal;
  onEvent?: (event: TrainEvent) => void;
  /** Starts also a run that, as planned, does not fit in memory. Default false: BAD_CONFIG before anything is loaded. */
  ignorePlan?: boolean;
}

/**
 * A run. Iterate over it for the steps as they are made (nothing happens between them), or await `result()`, which makes
 * the steps that are left. Leaving the iteration early ends the run; it can be resumed.
 */
export class TrainRun implements AsyncIterableIterator<TrainStep>, AsyncDisposable {
  private summary: RunSummary | null;
  private readonly steps: AsyncGenerator<TrainStep, RunSummary> | null;
  private begun = false;
  /** What ended the run before its end. */
  private failure: { error: unknown } | null = null;

  constructor(
    readonly directory: string,
    readonly config: Config,
    private readonly driver: RunDriver | null,
    finished: RunSummary | null,
  ) {
    this.summary = finished;
    this.steps = driver?.drive() ?? null;
  }

  async next(): Promise<IteratorResult<TrainStep, undefined>> {
    this.begun = true;
    const result = await this.steps?.next().catch((error: unknown) => {
      this.failure = { error };
      throw error;
    });
    if (result !== undefined && result.done !== true) return result;
    this.summary ??= result?.value ?? null;
    return { done: true, value: undefined };
  }

  async return(): Promise<IteratorResult<TrainStep, undefined>> {
    if (this.begun) {
      await this.steps?.return(undefined as never);
    } else {
      // A generator that never began has no `finally` to reach.
      this.begun = true;
      await this.driver?.close();
      await this.steps?.return(undefined as never);
    }
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /**
   * Makes the steps that are left and gives the run's summary, as in summary.json. A run that failed fails with the same
   * error again; one that was left has no summary: INTERRUPTED.
   */
  async result(): Promise<RunSummary> {
    while ((await this.next()).done !== true);
    if (this.summary !== null) return this.summary;
    if (this.failure !== null) throw this.failure.error;
    const resume = `acoer train --resume ${this.directory}`;
    throw new AcoerError('INTERRUPTED', `The run was left before its end; go on with: ${resume}`);
  }

  /** Ends the run within seconds: after the step in progress or without it, with a checkpoint. Rejects with INTERRUPTED. */
  stop(): void {
    this.driver?.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

function warnOfOtherMaker(
  checkpoint: StoredCheckpoint,
  engine: Engine,
  warn: (message: string) => void,
): void {
  const { maker } = storedPart(checkpoint);
  const now = thisMaker(engine);
  const names = Object.keys(now) as (keyof typeof now)[];
  const changes = names.filter((name) => maker[name] !== undefined && maker[name] !== now[name]);
  if (changes.length === 0) return;
  const list = changes.map((name) => `${name} ${maker[name]}, now ${now[name]}`).join('; ');
  warn(`The checkpoint was written by another set-up (${list}): later numbers may differ by rounding.`);
}

/** Where the run begins. */
async function startState({ directory, checkpoint, fork }: Opening, context: LoopContext): Promise<RunState> {
  if (checkpoint === null) return newState(context);
  if (fork === undefined) return restoreRun(directory, checkpoint, context);
  return forkState(checkpoint, fork.keepOpen, context);
}

/** Brings the loaded model to where the run stands. */
async function startDriver(
  opening: Opening,
  session: Session,
  emit: (event: TrainEvent) => void,
  options: Pick<TrainOptions, 'signal' | 'patience'> & { watchdog: Watchdog; sinks: Sinks },
): Promise<RunDriver> {
  const { directory, config, resumed, checkpoint, fork } = opening;
  const { model, policy, engine } = session.loop;
  const { dtype, device, parameterCount: parameters } = model.info;
  const trained = policy.info.parameterCount;
  emit({ type: 'loaded', model: config.model, parameters, trained, device, dtype });
  const start = await options.watchdog.phase('loading', () => startState(opening, session.loop));
  if (checkpoint !== null) {
    const warn = (message: string) => emit({ type: 'warning', message });
    warnOfOtherMaker(checkpoint, engine, warn);
    if (startsMonitorOver(checkpoint)) {
      warn("The checkpoint's collapse monitor is of an earlier version: it starts over from here.");
    }
  }
  if (resumed) writeJsonAtomic(directory.config(), config);
  return new RunDriver({ directory, config, session, start, unsaved: fork !== undefined, emit, ...options });
}

/** Opens the session as the phase `loading`; one that hung and came late is closed. */
async function openWatched({ config, inputs }: Opening, options: SessionOptions): Promise<Session> {
  const { watchdog } = options;
  const opening = openSession(config, inputs, options);
  try {
    return await watchdog.phase('loading', () => opening);
  } catch (error) {
    const ignore = () => undefined;
    if (watchdog.abandoned) void opening.then((late) => late.close()).catch(ignore);
    throw error;
  }
}

/** Aborted while it loads, a run ends like an aborted run. */
function loadingError(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted !== true) return error;
  return new AcoerError('INTERRUPTED', 'Interrupted while the run was being set up.', { cause: error });
}

/**
 * Starts a run, forks one, or goes on with one. Resolves when the model is loaded.
 *
 * @throws BAD_CONFIG, BAD_INPUT, HUB, RUN_EXISTS, RUN_LOCKED before anything is loaded; LOAD_FAILED, DEVICE, ... of the
 * engine
 */
export async function train(options: TrainOptions = {}): Promise<TrainRun> {
  const {
    out,
    resume,
    fork,
    signal,
    patience,
    hangGraceMs: graceMs,
    exitWhenBlocked,
    onEvent,
    engine,
    tokenizer,
    trainData,
    evalData,
    ignorePlan,
    sinks: sinksGiven,
    ...others
  } = options;
  const modules = sinksGiven?.filter((sink) => typeof sink === 'string');
  const given = { ...others, ...(modules && { sinks: modules }) };
  if (resume !== undefined && fork !== undefined) {
    throw new AcoerError('BAD_CONFIG', 'A run is resumed or forked: leave out resume or fork.');
  }
  let sinks: Sinks | null = null;
  const emit = (event: TrainEvent) => {
    onEvent?.(event);
    sinks?.event(event);
  };
  const fetching: ModelFetchOptions = {
    signal,
    onProgress: (progress) => emit({ type: 'download', ...progress }),
    onNotice: (message) => emit({ type: 'warning', message }),
  };
  const warnings: string[] = [];
  const parts = { tokenizer, trainData, evalData };
  const finished = resume === undefined ? null : finishedRun(resume, given);
  if (finished !== null) {
    const { maxSteps } = finished.config;
    emit({ type: 'warning', message: `${resume} has made its ${maxSteps} steps: nothing is left to do.` });
    return new TrainRun(resume!, finished.config, null, finished.summary);
  }
  const warn = (message: string) => void warnings.push(message);
  const opening = await (resume !== undefined
    ? openResumed(resume, given, parts, fetching, warn)
    : fork !== undefined
      ? openFork(out, fork, given, parts, fetching)
      : openNew(out, given, parts, fetching));
  const { directory, config, resumed, checkpoint } = opening;
  const resumedStep = resumed ? (checkpoint?.step ?? 0) : null;
  const discard = () => (resumed ? directory.lock?.release() : discardRunDirectory(directory));
  const own = (sinksGiven ?? []).flatMap((sink, i): [string, Sink][] =>
    typeof sink === 'string' ? [] : [[`${i + 1} of train()`, sink]],
  );
  const loaded = await loadSinks(config.sinks, { directory: directory.path, config }).catch(
    async (error: unknown) => {
      await closeRewards(opening.inputs.rewards);
      discard();
      throw error;
    },
  );
  const sinkList = (sinks = new Sinks([...own, ...loaded], (message) => emit({ type: 'warning', message })));
  emit({ type: 'run', directory: directory.path, config, resumedStep });
  for (const message of warnings) emit({ type: 'warning', message });
  const watchdog = new Watchdog({ config, directory, emit, graceMs, exitWhenBlocked });
  const session = await openWatched(opening, { engine, signal, ignorePlan, watchdog }).catch(
    (error: unknown) => {
      watchdog.close();
      discard();
      throw loadingError(error, signal);
    },
  );
  try {
    if (session.plan !== null) emit({ type: 'plan', plan: session.plan });
    const options = { signal, patience, watchdog, sinks: sinkList };
    const driver = await startDriver(opening, session, emit, options);
    return new TrainRun(directory.path, config, driver, null);
  } catch (error) {
    await (watchdog.abandoned ? session.abandon() : session.close());
    watchdog.close();
    directory.lock?.release();
    throw loadingError(error, signal);
  }
}
