/** A run in progress, whatever its method: makes its steps, saves, and does what follows from each. */
import { AcoerError, errorCode, errorMessage, type AcoerErrorCode } from '../base/errors';
import { NO_WATCH } from '../grpo/watch';
import { isFull } from '../run';
import type { TrainStep } from './events';
import type { MadeStep, Next, Running, Work } from './method';
import type { Outcome } from './progress';

/** Makes the steps of a run, each written before it is handed out. */
export class RunDriver<Step extends MadeStep, Summary> {
  /** The version of the policy that belongs to the state. */
  private weights: number;
  /** The state is newer than the newest checkpoint. */
  private unsaved: boolean;
  private outcome: Outcome = 'interrupted';
  /** What it failed with. */
  private failure: unknown;
  /** What became of the run, in a sentence. */
  private ended: () => string | Promise<string> = () => this.stopMessage();
  /** Whether a step, or the result, has been asked for. */
  begun = false;

  private constructor(
    private readonly run: Running,
    private readonly work: Work<Step, Summary>,
    /** The command that resumes the run. */
    private readonly resume: string,
  ) {
    const { watchdog, halt } = run;
    this.unsaved = work.unsaved === true;
    this.weights = run.policy.version;
    watchdog.atStep(work.step);
    watchdog.onStop = (error) => halt.hang(error);
    if (watchdog.hung !== null) halt.hang(watchdog.hung);
    run.sinks.ending = halt.waiting;
  }

  /** Takes the run over: from now on `close` or `drive` closes what is open, unless this fails. */
  static async start<Step extends MadeStep, Summary>(
    run: Running,
    work: Work<Step, Summary>,
    resume: string,
  ): Promise<RunDriver<Step, Summary>> {
    const driver = new RunDriver(run, work, resume);
    await work.files.rewindTo(work);
    return driver;
  }

  get directory(): string {
    return this.run.directory.path;
  }

  private get step(): number {
    return this.work.step;
  }

  /** Ends the run with a checkpoint: after the step in progress, or without it when that takes too long. */
  stop(): void {
    this.run.halt.stop();
  }

  /** What the run does now, for a message about a process that ends meanwhile. */
  doing(): string {
    const { running: phase } = this.run.watchdog;
    return `${phase === null ? 'after' : `in the phase ${phase} after`} step ${this.step}; resume with: ${this.resume}`;
  }

  /** Lets others open the run's folder, when this process ends. */
  release(): void {
    this.run.directory.lock?.release();
  }

  async *drive(): AsyncGenerator<TrainStep, Summary> {
    const { work } = this;
    this.begun = true;
    try {
      if (await work.begin()) this.unsaved = true;
      if (work.needsStart === true && this.run.directory.checkpointSteps().length === 0) this.unsaved = true;
      await this.save();
      if (work.step < work.maxSteps) this.throwIfStopping();
      while (yield* this.steps()) this.throwIfStopping();
      const summary = await work.finish();
      this.outcome = 'finished';
      this.ended = () => work.inWords(summary);
      return summary;
    } catch (error) {
      const ending = this.ending(error);
      this.failure = ending;
      if (errorCode(ending) !== 'INTERRUPTED') this.outcome = 'failed';
      const failed = this.outcome === 'failed' ? `Failed after step ${this.step}. ` : '';
      this.ended = () => `${failed}${errorMessage(ending)}`;
      throw ending;
    } finally {
      await this.close();
    }
  }

  /** The steps up to the end or a rollback; returns true after a rollback. */
  private async *steps(): AsyncGenerator<TrainStep, boolean> {
    const { work } = this;
    if (work.state.pending !== null) yield await this.completeStep();
    if (await this.wentBack(work.after?.())) return true;
    for await (const step of work.steps()) {
      if (step.refusal) {
        // Nothing of the step was applied, so the weights still belong to the state.
        this.weights = this.run.policy.version;
        if (await this.wentBack(await work.refused?.(step))) return true;
      }
      await work.record(step);
      this.weights = this.run.policy.version;
      this.unsaved = true;
      yield await this.completeStep();
      if (await this.wentBack(work.after?.())) return true;
      this.throwIfStopping();
    }
    return false;
  }

  private throwIfStopping(): void {
    if (this.run.halt.stopping) throw new AcoerError('INTERRUPTED', this.stopMessage());
  }

  /** Does what follows from a step; returns true after a rollback. */
  private async wentBack(next: Next | undefined): Promise<boolean> {
    if (next === undefined) return false;
    if (next.do === 'go on') {
      if (next.warning !== null) this.run.warn(next.warning);
      return false;
    }
    if (next.do === 'end') {
      this.unsaved ||= next.changed === true;
      throw next.error;
    }
    // From here on only the checkpoint that is restored counts.
    this.unsaved = false;
    await this.work.rollBack!(next);
    this.weights = this.run.policy.version;
    return true;
  }

  /** Evaluates if that is due, writes the pending line, and saves if that is due. */
  private async completeStep(): Promise<TrainStep> {
    const { work } = this;
    const { step: index } = work;
    const metrics = work.state.pending!;
    const improved = await work.complete(metrics);
    await work.files.give('step', metrics);
    work.state.pending = null;
    this.run.emit({ type: 'step', index, metrics });
    if (improved || work.saveIsDue()) await this.save();
    return { index, metrics };
  }

  private async save(signal?: AbortSignal): Promise<void> {
    // After a failure between an update and its state, the weights belong to no state that could be saved.
    if (!this.unsaved || this.run.policy.version !== this.weights) return;
    await this.work.save(signal);
    this.unsaved = false;
  }

  private stopMessage(): string {
    return `Interrupted after step ${this.step}; resume with: ${this.resume}`;
  }

  /** The error for the caller. Whatever an aborted call threw becomes INTERRUPTED. */
  private ending(error: unknown): unknown {
    const { watchdog, halt } = this.run;
    if (watchdog.hung !== null) return watchdog.hung;
    if (halt.failure !== null) return halt.failure;
    const code = errorCode(error);
    // Asked to stop while it waited for space: that is no failure.
    if (halt.waiting.aborted && code === 'WRITE_FAILED' && isFull((error as Error).cause)) {
      const message = `${this.stopMessage()} (${errorMessage(error)})`;
      return new AcoerError('INTERRUPTED', message, { cause: error });
    }
    if (halt.caused(error)) return new AcoerError('INTERRUPTED', this.stopMessage(), { cause: error });
    const advice = code === undefined ? null : this.work.advice(code);
    if (advice === null) return error;
    const message = `${errorMessage(error)} The run ended after step ${this.step}; ${advice}`;
    return new AcoerError(code as AcoerErrorCode, message, { cause: error });
  }

  /** However the run ended: saves what can be resumed and frees everything. */
  async close(): Promise<void> {
    const { watchdog, halt, progress, sinks, notifier } = this.run;
    const { begun } = this;
    this.begun = true;
    halt.dispose();
    try {
      if (!watchdog.abandoned) await this.save(AbortSignal.abort());
    } catch (error) {
      this.run.warn(`The last checkpoint could not be written: ${errorMessage(error)}`);
    }
    try {
      await this.work.left?.(this.failure);
      if (watchdog.abandoned) await this.run.close(false);
      else await watchdog.phase('checkpoint', () => this.run.close(true));
    } finally {
      await progress.end(this.outcome);
      this.work.files.close();
      if (watchdog.abandoned) sinks.watch = NO_WATCH;
      try {
        if (begun) await notifier.end(this.outcome, this.step, this.ended);
      } finally {
        await sinks.close();
        watchdog.close();
      }
    }
  }
}
