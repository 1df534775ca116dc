/** A supervised run in progress: makes the steps, each written before the next, and saves. */
import { AcoerError, errorCode, errorMessage } from '../errors';
import { MemoryLimits } from '../grpo/memory';
import { scheduleOf } from '../life/policy';
import { Halt } from '../life/halt';
import { isFull } from '../run';
import type { StepMetrics } from '../types';
import { NO_WATCH } from '../grpo/watch';
import type { SftSummary } from '../life/events';
import type { Outcome } from '../life/progress';
import { SftFiles } from './files';
import type { OpenedSft } from './opened';
import type { SftState } from './state';
import { Batches, sftStep, type StepContext, type StepFigures } from './step';

export const resumeCommand = (directory: string): string => `acoer sft --resume ${directory}`;

export class SftDriver {
  private readonly context: StepContext;
  private readonly files: SftFiles;
  private readonly halt = new Halt();
  private state: SftState;
  /** The version of the policy that belongs to `state`. */
  private weights: number;
  /** The state is newer than the newest checkpoint. */
  private unsaved = false;
  private outcome: Outcome = 'interrupted';

  private constructor(private readonly run: OpenedSft) {
    const { config, policy, inputs, state, emit, watchdog, signal } = run;
    const memory = new MemoryLimits(config, {
      lengthSetting: 'maxLength',
      warn: (message) => emit({ type: 'warning', message }),
    });
    memory.restore(state.memory);
    const batches = new Batches(inputs.examples, config);
    const schedule = scheduleOf(config);
    const { halt } = this;
    this.context = { config, policy, memory, batches, schedule, signal: halt.step, watch: watchdog };
    this.files = new SftFiles(run, halt.waiting);
    this.state = state;
    this.weights = policy.version;
    watchdog.atStep(state.step);
    watchdog.onStop = (error) => halt.hang(error);
    if (watchdog.hung !== null) halt.hang(watchdog.hung);
    run.sinks.ending = halt.waiting;
    signal?.addEventListener('abort', this.stop, { once: true });
    if (signal?.aborted === true) this.stop();
  }

  /** Takes the run over: from now on `drive` closes what is open, unless this fails. */
  static async start(run: OpenedSft): Promise<SftDriver> {
    const driver = new SftDriver(run);
    try {
      await driver.files.give('rewind', run.state.step);
    } catch (error) {
      driver.halt.dispose();
      throw error;
    }
    return driver;
  }

  /** Ends the run with a checkpoint. */
  private readonly stop = (): void => this.halt.stop();

  /** Makes the steps that are left. @throws INTERRUPTED after `signal`, with a checkpoint */
  async drive(): Promise<SftSummary> {
    try {
      while (this.state.step < this.maxSteps) {
        if (this.halt.stopping) throw this.interrupted();
        await this.step();
      }
      const summary = await this.finish();
      this.outcome = 'finished';
      return summary;
    } catch (error) {
      const ending = this.ending(error);
      if (errorCode(ending) !== 'INTERRUPTED') this.outcome = 'failed';
      throw ending;
    } finally {
      await this.close();
    }
  }

  private get maxSteps(): number {
    return this.run.config.maxSteps;
  }

  private async step(): Promise<void> {
    const begun = performance.now();
    const { policy, memory, watch } = this.context;
    watch.atStep(this.state.step + 1);
    const figures = await sftStep(this.context, this.state.step);
    const { step, numTokens, loss } = this.state;
    this.state = {
      step: step + 1,
      numTokens: numTokens + figures.tokens,
      loss: { first: loss?.first ?? figures.loss, last: figures.loss },
      memory: memory.state(),
    };
    this.weights = policy.version;
    this.unsaved = true;
    const metrics = this.line(figures, (performance.now() - begun) / 1000);
    await this.files.give('step', metrics);
    this.run.emit({ type: 'step', index: this.state.step, metrics });
    if (this.saveIsDue()) await this.save();
  }

  private line({ loss, entropy, gradNorm, learningRate }: StepFigures, seconds: number): StepMetrics {
    const { step, numTokens } = this.state;
    return {
      step,
      epoch: step / this.context.batches.perEpoch,
      num_tokens: numTokens,
      learning_rate: learningRate,
      loss,
      grad_norm: gradNorm,
      entropy,
      step_time: seconds,
    };
  }

  private saveIsDue(): boolean {
    const { step } = this.state;
    const { saveSteps } = this.run.config;
    return step === this.maxSteps || (saveSteps > 0 && step % saveSteps === 0);
  }

  private async save(signal?: AbortSignal): Promise<void> {
    // After a failure between an update and its state, the weights belong to no state that could be saved.
    if (!this.unsaved || this.run.policy.version !== this.weights) return;
    await this.files.checkpoint(this.state, signal);
    this.unsaved = false;
  }

  private async finish(): Promise<SftSummary> {
    const { config, directory, inputs, emit } = this.run;
    const { step, numTokens, loss } = this.state;
    const summary: SftSummary = {
      run: {
        directory: directory.path,
        method: 'sft',
        full: config.full,
        seed: config.seed,
        steps: step,
        examples: inputs.examples.length,
      },
      loss: loss!,
      numTokens,
    };
    await this.files.final(summary);
    emit({ type: 'finished', summary });
    return summary;
  }

  private get resume(): string {
    return resumeCommand(this.run.directory.path);
  }

  private interrupted(cause?: unknown): AcoerError {
    const message = `Interrupted after step ${this.state.step}; resume with: ${this.resume}`;
    return new AcoerError('INTERRUPTED', message, { cause });
  }

  /** The error for the caller. Whatever an aborted call threw becomes INTERRUPTED. */
  private ending(error: unknown): unknown {
    if (this.run.watchdog.hung !== null) return this.run.watchdog.hung;
    const code = errorCode(error);
    // Asked to stop while it waited for space: that is no failure.
    const waited = this.halt.stopping && code === 'WRITE_FAILED' && isFull((error as Error).cause);
    if (waited || this.halt.caused(error)) return this.interrupted(error);
    if (code !== 'WRITE_FAILED' && code !== 'OUT_OF_MEMORY' && code !== 'NOT_FINITE') return error;
    const advice = `The run ended after step ${this.state.step}; to go on: ${this.resume}`;
    return new AcoerError(code, `${errorMessage(error)} ${advice}`, { cause: error });
  }

  /** However the run ended: saves what can be resumed and frees everything. */
  private async close(): Promise<void> {
    const { watchdog, signal, emit, progress, sinks } = this.run;
    signal?.removeEventListener('abort', this.stop);
    this.halt.dispose();
    try {
      if (!watchdog.abandoned) await this.save(AbortSignal.abort());
    } catch (error) {
      const message = `The last checkpoint could not be written: ${errorMessage(error)}`;
      emit({ type: 'warning', message });
    }
    try {
      if (watchdog.abandoned) await this.run.close(false);
      else await watchdog.phase('checkpoint', () => this.run.close(true));
    } finally {
      await progress.end(this.outcome);
      this.files.close();
      if (watchdog.abandoned) sinks.watch = NO_WATCH;
      await sinks.close();
      watchdog.close();
    }
  }
}
