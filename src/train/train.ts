/** `train`: a whole run in one call. */
import type { Config, ConfigInput } from '../config';
import { AcoerError } from '../errors';
import { shownJson } from '../json';
import type { ModelFetchOptions } from '../models';
import type { Patience } from '../run';
import type { RunSummary, TrainEvent, TrainStep } from '../life/events';
import { openFork, type ForkPoint } from './fork';
import type { GivenParts } from './inputs';
import { setUpError } from '../life/life';
import { startWork } from './work';
import { closedRun, openedRun, type OpenRun } from '../life/open-runs';
import { openModel, type SamplerMaker } from './opened';
import { finishedRun, GRPO, type TrainAsked, type TrainOpening } from './opening';
import { plainParts, type PlainOptions } from './plain';
import { beginRun, Teller } from '../life/begin';
import type { RunDriver } from '../life/driver';
import { resumeCommand } from '../life/method';
import { openNew, openResumed } from '../life/opening';
import type { LoopStep } from '../grpo/step';
import { checkSinks, type Sink } from '../life/sinks';
import { givenTokenizer } from '../tokenizer';
import { givenDataset } from '../data';
import { needFunction, needMethods, needObject, needSignal } from '../border';

/** Settings of the configuration, which override those of a preset, and how to run. */
export interface TrainOptions
  extends Omit<ConfigInput, 'sinks' | keyof PlainOptions>, PlainOptions, GivenParts {
  /**
   * Where the run's numbers go besides its own files: objects, or modules as in a configuration.
   * @default []
   */
  sinks?: readonly (Sink | string)[];
  /** Default: `tiny` for the embedded model, else `paper`. */
  preset?: string;
  /** The run's folder. Default: runs/<date>-<name>. */
  out?: string;
  /** Folder of a run to resume under its own configuration; some settings may be changed. */
  resume?: string;
  /**
   * With `resume`: continue although this has changed since the checkpoint; the run shows it. Everything else
   * must be the same.
   * @default []
   */
  acceptChanged?: readonly 'reward'[];
  /**
   * With `resume` or `fork`: load the judge, rewards and sinks in files that the run names, although nobody
   * named them on this machine (SECURITY.md). Files that these options name need no trust.
   * @default false
   */
  trust?: boolean;
  /** A run's checkpoint to continue from, in a new folder and with the settings given here. */
  fork?: ForkPoint;
  /** How long a cancelled, hung call may take to return before the run ends without it. Default 30,000 ms. */
  hangGraceMs?: number;
  /**
   * Ends this process with exit code 1 when its main thread is blocked for longer than the watchdog allows
   * and `onHang` is `stop`: nothing else can end such a run. For programs that do nothing but the run.
   * Default false.
   */
  exitWhenBlocked?: boolean;
  /** Makes the sampler for rollouts. Default: the engine's. Evaluations always sample with the engine. */
  sampler?: SamplerMaker;
  /** How long to wait for space on a full disk. */
  patience?: Patience;
  /** Ends the run at once with INTERRUPTED; it can be resumed from the last finished step. */
  signal?: AbortSignal;
  onEvent?: (event: TrainEvent) => void;
  /** Start even if the plan says the run will not fit in memory. Default false: BAD_CONFIG before loading. */
  ignorePlan?: boolean;
}

type TrainDriver = RunDriver<LoopStep, RunSummary>;

/** Without a reference to the TrainRun. */
const openRunOf = (directory: string, driver: TrainDriver): OpenRun => ({
  directory,
  begun: false,
  doing: () => driver.doing(),
  release: () => driver.release(),
  close: () => driver.close(),
});

/**
 * An opened run, which has trained nothing yet. Iterate over it to get each step as it is made (nothing runs in
 * between), or await `result()`, which makes the remaining steps. Leaving the iteration early ends the run; it
 * can be resumed. A run that is never begun is closed, with a warning, when the process ends or nothing refers
 * to it any more.
 */
export class TrainRun implements AsyncIterableIterator<TrainStep>, AsyncDisposable {
  private summary: RunSummary | null;
  private readonly steps: AsyncGenerator<TrainStep, RunSummary> | null;
  /** null: the run has ended. */
  private open: OpenRun | null = null;
  /** Why the run failed. */
  private failure: { error: unknown } | null = null;

  constructor(
    readonly directory: string,
    readonly config: Config,
    private readonly driver: TrainDriver | null,
    finished: RunSummary | null,
  ) {
    this.summary = finished;
    this.steps = driver?.drive() ?? null;
    if (driver === null) return;
    this.open = openRunOf(directory, driver);
    openedRun(this, this.open);
  }

  async next(): Promise<IteratorResult<TrainStep, undefined>> {
    if (this.open !== null) this.open.begun = true;
    const result = await this.steps?.next().catch((error: unknown) => {
      this.failure = { error };
      this.ended();
      throw error;
    });
    if (result !== undefined && result.done !== true) return result;
    this.ended();
    this.summary ??= result?.value ?? null;
    return { done: true, value: undefined };
  }

  async return(): Promise<IteratorResult<TrainStep, undefined>> {
    const { open } = this;
    const never = open?.begun === false;
    if (open !== null) open.begun = true;
    try {
      // A generator that never began has no `finally` to reach.
      if (never) await this.driver?.close();
      await this.steps?.return(undefined as never);
    } finally {
      this.ended();
    }
    return { done: true, value: undefined };
  }

  private ended(): void {
    if (this.open !== null) closedRun(this.open);
    this.open = null;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /**
   * Makes the remaining steps and returns the run's summary, as in summary.json. A run that failed throws the
   * same error again; one that was left early throws INTERRUPTED.
   */
  async result(): Promise<RunSummary> {
    while ((await this.next()).done !== true);
    if (this.summary !== null) return this.summary;
    if (this.failure !== null) throw this.failure.error;
    const resume = resumeCommand(GRPO, this.directory);
    throw new AcoerError('INTERRUPTED', `The run was left before its end; resume with: ${resume}`);
  }

  /** Ends the run with INTERRUPTED and a checkpoint within seconds, with or without the step in progress. */
  stop(): void {
    this.driver?.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

/** The settings among the options. */
function settingsOf({
  out: _out,
  resume: _resume,
  fork: _fork,
  acceptChanged: _acceptChanged,
  trust: _trust,
  signal: _signal,
  patience: _patience,
  hangGraceMs: _hangGraceMs,
  exitWhenBlocked: _exitWhenBlocked,
  onEvent: _onEvent,
  ignorePlan: _ignorePlan,
  sampler: _sampler,
  engine: _engine,
  tokenizer: _tokenizer,
  trainData: _trainData,
  evalData: _evalData,
  dataset: _dataset,
  evalDataset: _evalDataset,
  reward: _reward,
  judge: _judge,
  sinks,
  ...settings
}: TrainOptions): TrainAsked['settings'] {
  const modules = sinks?.filter((sink) => typeof sink === 'string');
  return { ...settings, ...(modules && { sinks: modules }) };
}

/** Opens the run's directory and reads its inputs. */
async function openRun(
  { out, resume, fork, signal }: TrainOptions,
  asked: TrainAsked,
  warn: (message: string) => void,
): Promise<TrainOpening> {
  try {
    if (resume !== undefined) return await openResumed(GRPO, resume, asked, warn);
    return await (fork === undefined ? openNew(GRPO, out, asked) : openFork(out, fork, asked, warn));
  } catch (error) {
    throw setUpError(error, signal);
  }
}

/** @throws BAD_ARGUMENT naming the option that is not what it must be */
function givenOptions(options: TrainOptions): TrainOptions {
  needObject('the options of train()', options);
  const { signal, onEvent, sampler, sinks, engine, tokenizer, trainData, evalData } = options;
  needSignal('signal', signal);
  if (onEvent !== undefined) needFunction('onEvent', onEvent);
  if (sampler !== undefined) needFunction('sampler', sampler);
  if (engine !== undefined) needMethods('engine', engine, ['loadModel', 'memory', 'dispose']);
  checkSinks(sinks);
  return {
    ...options,
    ...(tokenizer !== undefined && { tokenizer: givenTokenizer('tokenizer', tokenizer) }),
    ...(trainData !== undefined && { trainData: givenDataset('trainData', trainData) }),
    ...(evalData !== undefined && { evalData: givenDataset('evalData', evalData) }),
  };
}

/** @throws BAD_CONFIG for something that cannot be accepted, or for a run that is not resumed */
function checkedAcceptance({ acceptChanged = [], resume }: TrainOptions): readonly 'reward'[] {
  const unknown = acceptChanged.find((what) => (what as string) !== 'reward');
  if (unknown !== undefined) {
    throw new AcoerError('BAD_CONFIG', `acceptChanged can name reward only, not ${shownJson(unknown)}.`);
  }
  if (acceptChanged.length > 0 && resume === undefined) {
    throw new AcoerError(
      'BAD_CONFIG',
      'acceptChanged is about resuming a run: leave it out, or name resume.',
    );
  }
  return acceptChanged;
}

/** @throws BAD_CONFIG for a new run, all of whose code its caller names */
function checkedTrust({ trust = false, resume, fork }: TrainOptions): boolean {
  if (typeof trust !== 'boolean') {
    throw new AcoerError('BAD_CONFIG', `trust must be true or false, not ${shownJson(trust)}.`);
  }
  if (trust && resume === undefined && fork === undefined) {
    throw new AcoerError(
      'BAD_CONFIG',
      'trust is about a run to resume or to fork: leave it out, or name one.',
    );
  }
  return trust;
}

/**
 * Opens a run, new, forked or resumed; it trains when it is iterated over or its `result()` is awaited. Resolves
 * once the model is loaded.
 *
 * @throws BAD_ARGUMENT, BAD_CONFIG, BAD_INPUT, HUB, RUN_EXISTS, RUN_LOCKED before anything is loaded; LOAD_FAILED, DEVICE,
 * ... from the engine
 */
export async function train(given: TrainOptions = {}): Promise<TrainRun> {
  const options = givenOptions(given);
  const { resume, fork, signal, onEvent, tokenizer, trainData, evalData } = options;
  if (resume !== undefined && fork !== undefined) {
    throw new AcoerError('BAD_CONFIG', 'A run is either resumed or forked: leave out resume or fork.');
  }
  const acceptChanged = checkedAcceptance(options);
  const trust = checkedTrust(options);
  const teller = new Teller<TrainEvent>(onEvent);
  const { tell, warn } = teller;
  const plain = plainParts(options);
  const fetching: ModelFetchOptions = {
    signal,
    onProgress: (progress) => tell({ type: 'download', ...progress }),
    onNotice: warn,
  };
  const settings = { ...settingsOf(options), ...plain.settings };
  const parts = { tokenizer, trainData, evalData, ...plain.parts };
  const asked = { settings, parts, fetching, acceptChanged, trust };
  const finished = resume === undefined ? null : finishedRun(resume, asked);
  if (finished !== null) {
    warn(`${resume} has made all of its ${finished.config.maxSteps} steps: nothing is left to do.`);
    return new TrainRun(resume!, finished.config, null, finished.summary);
  }
  const warnings: string[] = [];
  const opening = await openRun(options, asked, (message) => warnings.push(message));
  const { directory, config, resumed, checkpoint } = opening;
  const announce = () => {
    const resumedStep = resumed ? (checkpoint?.step ?? 0) : null;
    tell({ type: 'run', directory: directory.path, config, resumedStep });
    warnings.forEach(warn);
    const change = opening.accepted.find(({ step }) => step === resumedStep);
    if (change !== undefined) tell({ type: 'accepted', change });
  };
  const driver = await beginRun(GRPO, opening, options, teller, {
    announce,
    load: ({ watchdog }) => openModel(opening, watchdog, { ...options, warn }),
    start: (run) => startWork({ ...opening, ...run }),
  });
  return new TrainRun(directory.path, config, driver, null);
}
