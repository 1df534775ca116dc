/** `train`: a whole run in one call. */
import { offPolicySources, type Config } from '../config';
import { AcoerError } from '../base/errors';
import type { ModelFetchOptions } from '../models';
import type { RunSummary, TrainEvent, TrainStep } from '../life/events';
import { openFork, finishedRun, GRPO, type TrainAsked, type TrainOpening } from './opening';
import { startWork } from './work';
import { closedRun, openedRun, type OpenRun } from '../life/open-runs';
import { follow, type RunTold } from './follower';
import { Lead } from './lead';
import { openModel } from './opened';
import { trainTogether, type Together } from './together';
import { givenOptions, type TrainOptions, type TrainSettings, plainParts } from './options';
import { beginRun, setUpError, Teller } from '../life/begin';
import { apartFromAddress, nobodyTold } from '../life/notifier';
import { resumeCommand } from '../life/method';
import { openNew, openResumed } from '../life/opening';

/** What makes the steps. */
interface Driven extends OpenRun {
  drive(): AsyncGenerator<TrainStep, RunSummary>;
  stop(): void;
}

/**
 * An opened run, which has trained nothing yet. Iterate over it to get each step as it is made (nothing runs in
 * between), or await `result()`, which makes the remaining steps. Leaving the iteration early ends the run; it
 * can be resumed. A run that is never begun is closed, with a warning, when the process ends or nothing refers
 * to it any more.
 */
export class TrainRun implements AsyncIterableIterator<TrainStep>, AsyncDisposable {
  private summary: RunSummary | null;
  private readonly steps: AsyncGenerator<TrainStep, RunSummary> | null;
  /** Why the run failed. */
  private failure: { error: unknown } | null = null;

  constructor(
    readonly directory: string,
    readonly config: Config,
    private readonly driver: Driven | null,
    finished: RunSummary | null,
    /** Whether this process has the run's folder: not one of several that is not rank 0. */
    readonly leads = true,
  ) {
    this.summary = finished;
    this.steps = driver?.drive() ?? null;
    if (driver !== null) openedRun(this, driver);
  }

  async next(): Promise<IteratorResult<TrainStep, undefined>> {
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
    try {
      // A generator that never began has no `finally` to reach.
      if (this.driver?.begun === false) await this.driver.close();
      await this.steps?.return(undefined as never);
    } finally {
      this.ended();
    }
    return { done: true, value: undefined };
  }

  private ended(): void {
    if (this.driver !== null) closedRun(this.driver);
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

/**
 * Opens a run, new, forked or resumed; it trains when it is iterated over or its `result()` is awaited. Resolves
 * once the model is loaded.
 *
 * @param settings what a configuration file can hold; for a run to resume or to fork, those to change
 * @throws BAD_ARGUMENT, BAD_CONFIG, BAD_INPUT, HUB, RUN_EXISTS, RUN_LOCKED before anything is loaded; LOAD_FAILED, DEVICE,
 * ... from the engine
 */
export async function train(settings: TrainSettings = {}, given: TrainOptions = {}): Promise<TrainRun> {
  const options = givenOptions(settings, given);
  const { signal, onEvent, tokenizer, trainData, evalData } = options;
  const { acceptChanged = [], trust = false } = options;
  const teller = new Teller<TrainEvent>(onEvent);
  const { tell, warn } = teller;
  const plain = plainParts(options);
  const fetching: ModelFetchOptions = {
    signal,
    onProgress: (progress) => tell({ type: 'download', ...progress }),
    onNotice: warn,
  };
  const parts = { tokenizer, trainData, evalData, ...plain.parts };
  const { settings: own, address: notify } = apartFromAddress(settings);
  const together = await trainTogether(options, warn).catch((error: unknown) => {
    throw setUpError(error, signal);
  });
  const ranks = together?.ranks.size ?? 1;
  const asked = { settings: { ...own, ...plain.settings }, parts, fetching, acceptChanged, trust, ranks };
  if (together === null) return trainHere(null, asked, options, teller, notify);
  try {
    await together.agreeOnSettings(asked, options);
    if (together.leads) return await trainHere(together, asked, options, teller, notify);
    const told = await together.ranks.fromFirst<RunTold>('opening the run', neverCalled);
    if (told.finished !== null) {
      await together.part(undefined);
      return new TrainRun(told.directory, told.config, null, told.finished, false);
    }
    const follower = await follow(together, told, asked, options, tell);
    return new TrainRun(told.directory, told.config, follower, null, false);
  } catch (error) {
    await together.joined.fail(error);
    throw error;
  }
}

const neverCalled = (): Promise<never> => Promise.reject(new Error('only rank 0 opens the run'));

/** Opens the run's folder, on the one process that has it. */
async function openHere(
  asked: TrainAsked,
  options: TrainOptions,
  teller: Teller<TrainEvent>,
): Promise<{ finished: ReturnType<typeof finishedRun>; opening: TrainOpening | null; warnings: string[] }> {
  const { resume } = options;
  const warnings: string[] = [];
  const finished = resume === undefined ? null : finishedRun(resume, asked);
  if (finished !== null) {
    teller.warn(`${resume} has made all of its ${finished.config.maxSteps} steps: nothing is left to do.`);
    return { finished, opening: null, warnings };
  }
  const opening = await openRun(options, asked, (message) => warnings.push(message));
  return { finished, opening, warnings };
}

/** Trains as the only process, or as rank 0. */
async function trainHere(
  together: Together | null,
  asked: TrainAsked,
  given: TrainOptions,
  teller: Teller<TrainEvent>,
  notify: string | null,
): Promise<TrainRun> {
  const { tell, warn } = teller;
  const restarted = together?.restartedRun(given.out);
  const options = restarted === undefined ? given : { ...given, resume: restarted, fork: undefined };
  const opened = openHere(asked, options, teller);
  if (together !== null) {
    await together.ranks.fromFirst<RunTold>('opening the run', async () => {
      const { finished, opening } = await opened;
      const directory = opening?.directory.path ?? options.resume!;
      return { directory, config: (finished ?? opening!).config, finished: finished?.summary ?? null };
    });
  }
  const { finished, opening, warnings } = await opened;
  if (opening === null) {
    await together?.part(undefined);
    return new TrainRun(options.resume!, finished!.config, null, finished!.summary);
  }
  const { directory, config, resumed, checkpoint } = opening;
  const announce = () => {
    const resumedStep = resumed ? (checkpoint?.step ?? 0) : null;
    tell({ type: 'run', directory: directory.path, config, resumedStep });
    warnings.forEach(warn);
    const untold = nobodyTold(config, notify);
    if (untold !== null) warn(untold);
    if (config.importanceSamplingCorrection === null) {
      const others = offPolicySources(config);
      if (others.length > 0)
        warn(
          `importanceSamplingCorrection is null: ${others.join(' and ')} log-probs are trained on as if they were the trainer's own.`,
        );
    }
    const change = opening.accepted.find(({ step }) => step === resumedStep);
    if (change !== undefined) tell({ type: 'accepted', change });
  };
  const own = together?.opening;
  const driver = await beginRun(GRPO, opening, { ...options, notify }, teller, {
    announce,
    load: async ({ watchdog, halt }) => {
      together?.watch(halt, watchdog);
      const openEngine = own && (() => own.openEngine(config));
      const served = {
        folder: directory.sampler(),
        tell: (message: string) => tell({ type: 'sampler', message }),
        warn,
      };
      const parts = { ...options, processes: own?.processes, openEngine, warn, served };
      const model = await openModel(opening, watchdog, parts);
      await together?.agreeOnInputs(model, opening.inputs).catch(async (error: unknown) => {
        await model.close(true);
        throw error;
      });
      return model;
    },
    start: (run) => startWork({ ...opening, ...run }, new Lead(run.loop, together?.part ?? null)),
  });
  return new TrainRun(directory.path, config, driver, null);
}
