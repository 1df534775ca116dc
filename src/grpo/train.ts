/** `train`: the whole of a run behind one call. */
import type { Config, ConfigInput } from '../config';
import { AcoerError } from '../errors';
import {
  copyRunStart,
  createRunDirectory,
  discardRunDirectory,
  newRunPath,
  openRunDirectory,
  RunDirectory,
} from '../run';
import type { LoopContext, WeightedReward } from './context';
import type { RunSummary, TrainEvent, TrainStep } from './events';
import { RunDriver, type RunState } from './run';
import { closeRewards, openInputs, resolveTrainConfig, withAbsolutePaths, type SessionParts } from './inputs';
import { openSession } from './session';
import { checkFork, forkState, startState } from './start';

/** Any settings of the configuration, over those of a preset, and how to run. */
export interface TrainOptions extends ConfigInput, SessionParts {
  /** Default: `tiny` for the embedded model, else `paper`. */
  preset?: string;
  /** The run's folder. Default: runs/<date>-<name>. */
  out?: string;
  /** Folder of a run to go on with; its configuration is the one stored there. */
  resume?: string;
  /** A run, and the step of one of its checkpoints to go on from in a new folder, under the settings given here. */
  fork?: { run: string; at: number };
  /** Ends the run at once; what was finished can be resumed. Rejects with INTERRUPTED. */
  signal?: AbortSignal;
  onEvent?: (event: TrainEvent) => void;
}

/**
 * A run. Iterate over it for the steps as they are made (nothing happens between them), or await `result()`, which makes
 * the steps that are left. Leaving the iteration early ends the run; it can be resumed.
 */
export class TrainRun implements AsyncIterableIterator<TrainStep>, AsyncDisposable {
  private summary: RunSummary | null;
  private readonly steps: AsyncGenerator<TrainStep, RunSummary> | null;
  private begun = false;

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
    const result = await this.steps?.next();
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

  /** Makes the steps that are left and gives the run's summary, as in summary.json. */
  async result(): Promise<RunSummary> {
    while ((await this.next()).done !== true);
    if (this.summary === null) throw new Error('The run was left before its end, so it has no summary.');
    return this.summary;
  }

  /** Ends the run after the step in progress, with a checkpoint. The iteration rejects with INTERRUPTED. */
  stop(): void {
    this.driver?.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

const storedConfig = (run: RunDirectory) => run.readJson(run.config()) as ConfigInput;

/** The configuration of the run: a resumed one's own, a forked one's under what is given, or what is given. */
function configOf({ resume, fork }: TrainOptions, given: ConfigInput & { preset?: string }): Config {
  if (resume !== undefined) return resolveTrainConfig([storedConfig(openRunDirectory(resume))]);
  if (fork === undefined) return withAbsolutePaths(resolveTrainConfig([given]));
  if (given.preset !== undefined) {
    throw new AcoerError('BAD_CONFIG', 'A fork starts from the settings of its run; leave out preset.');
  }
  // Only read: it may be a run in progress.
  const source = new RunDirectory(fork.run);
  const before = resolveTrainConfig([storedConfig(source)]);
  const config = withAbsolutePaths(resolveTrainConfig([before, given]));
  checkFork(source, fork.at, before, config);
  return config;
}

/** The folder of a new run; a fork's metrics so far are its source's. */
function newRunDirectory(
  { out, fork }: TrainOptions,
  config: Config,
  rewards: readonly WeightedReward[],
): RunDirectory {
  const name = config.name ?? rewards.map(({ reward }) => reward.name).join('+');
  const directory = createRunDirectory(out ?? newRunPath('runs', name), config);
  if (fork !== undefined) copyRunStart(directory, new RunDirectory(fork.run), fork.at);
  return directory;
}

/** What `work` gives; when it throws, the threads of the rewards are ended first. */
async function closingOnError<T>(rewards: readonly WeightedReward[], work: () => T): Promise<T> {
  try {
    return work();
  } catch (error) {
    await closeRewards(rewards);
    throw error;
  }
}

/** Refuses settings that a resumed run would not take. */
function refuseSettings(given: object): void {
  const names = Object.entries(given).filter(([, value]) => value !== undefined);
  if (names.length === 0) return;
  const list = names.map(([name]) => name).join(', ');
  throw new AcoerError('BAD_CONFIG', `A resumed run keeps its own configuration; leave out ${list}.`);
}

function finishedSummary(directory: RunDirectory): RunSummary | null {
  return directory.finished() ? (directory.readJson(directory.summary()) as RunSummary) : null;
}

/** Where the run begins. */
async function startOf(
  directory: RunDirectory,
  { resume, fork }: TrainOptions,
  context: LoopContext,
): Promise<RunState> {
  if (fork === undefined) return startState(directory, resume !== undefined, context);
  return forkState(new RunDirectory(fork.run), fork.at, context);
}

/**
 * Starts a run, forks one, or goes on with one. Resolves when the model is loaded.
 *
 * @throws BAD_CONFIG, BAD_INPUT, RUN_EXISTS before anything is loaded; LOAD_FAILED, DEVICE, ... of the engine
 */
export async function train(options: TrainOptions = {}): Promise<TrainRun> {
  const { out, resume, fork, signal, onEvent, engine, tokenizer, trainData, evalData, ...given } = options;
  if (resume !== undefined) refuseSettings({ ...given, out, fork });
  const emit = onEvent ?? (() => undefined);
  const config = configOf(options, given);
  const finished = resume === undefined ? null : finishedSummary(new RunDirectory(resume));
  if (finished !== null) return new TrainRun(resume!, config, null, finished);
  const inputs = await openInputs(config, { tokenizer, trainData, evalData });
  const resumed = resume !== undefined;
  const directory = await closingOnError(inputs.rewards, () =>
    resumed ? openRunDirectory(resume) : newRunDirectory(options, config, inputs.rewards),
  );
  const resumedStep = resumed ? (directory.checkpointSteps().at(-1) ?? 0) : null;
  emit({ type: 'run', directory: directory.path, config, resumedStep });
  const session = await openSession(config, inputs, engine, signal).catch((error: unknown) => {
    if (!resumed) discardRunDirectory(directory);
    throw error;
  });
  try {
    const { model, policy } = session.loop;
    const { dtype, device, parameterCount: parameters } = model.info;
    const trained = policy.info.parameterCount;
    emit({ type: 'loaded', model: config.model, parameters, trained, device, dtype });
    const start = await startOf(directory, options, session.loop);
    const unsaved = fork !== undefined;
    const driver = new RunDriver({
      directory,
      config,
      session,
      start,
      unsaved,
      emit,
      ...(signal && { signal }),
    });
    return new TrainRun(directory.path, config, driver, null);
  } catch (error) {
    await session.close();
    throw error;
  }
}
