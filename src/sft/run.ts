/** A supervised run in progress: makes the steps, each written before the next, and saves. */
import { AcoerError, errorCode, errorMessage } from '../errors';
import { MemoryLimits } from '../grpo/memory';
import { scheduleOf } from '../train/opened';
import { Halt } from '../train/halt';
import { isFull } from '../run';
import type { StepMetrics } from '../types';
import { asTrainConfig } from './config';
import type { SftSummary } from './events';
import { SftFiles } from './files';
import type { OpenedSft } from './opened';
import type { SftState } from './state';
import { Batches, sftStep, type StepContext, type StepFigures } from './step';

export class SftDriver {
  private readonly context: StepContext;
  private state: SftState;
  /** The version of the policy that belongs to `state`. */
  private weights: number;
  /** The state is newer than the newest checkpoint. */
  private unsaved = false;

  private constructor(
    private readonly run: OpenedSft,
    private readonly files: SftFiles,
    private readonly halt: Halt,
  ) {
    const { config, policy, inputs, warn, state } = run;
    const memory = new MemoryLimits(asTrainConfig(config), 'maxLength');
    memory.restore(state.memory);
    memory.warn = warn;
    const batches = new Batches(inputs.examples, config);
    const schedule = scheduleOf(asTrainConfig(config));
    this.context = { config, policy, memory, batches, schedule, signal: halt.step };
    this.state = state;
    this.weights = policy.version;
  }

  /** @param signal asks the run to end with a checkpoint */
  static async start(run: OpenedSft, signal: AbortSignal | undefined): Promise<SftDriver> {
    const halt = new Halt();
    const stop = () => halt.stop();
    signal?.addEventListener('abort', stop, { once: true });
    if (signal?.aborted === true) stop();
    return new SftDriver(run, await SftFiles.open(run, run.state.step, halt.waiting), halt);
  }

  /** Makes the steps that are left. @throws INTERRUPTED after `signal`, with a checkpoint */
  async drive(): Promise<SftSummary> {
    try {
      while (this.state.step < this.maxSteps) {
        if (this.halt.stopping) throw this.interrupted();
        await this.step();
      }
      return await this.finish();
    } catch (error) {
      throw this.ending(error);
    } finally {
      await this.close();
    }
  }

  private get maxSteps(): number {
    return this.run.config.maxSteps!;
  }

  private async step(): Promise<void> {
    const begun = performance.now();
    const { policy, memory } = this.context;
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
    await this.files.step(metrics);
    this.run.emit({ type: 'step', step: this.state.step, metrics });
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
    return `acoer sft --resume ${this.run.directory.path}`;
  }

  private interrupted(cause?: unknown): AcoerError {
    const message = `Interrupted after step ${this.state.step}; resume with: ${this.resume}`;
    return new AcoerError('INTERRUPTED', message, { cause });
  }

  /** The error for the caller. Whatever an aborted call threw becomes INTERRUPTED. */
  private ending(error: unknown): unknown {
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
    this.halt.dispose();
    try {
      await this.save(AbortSignal.abort());
    } catch (error) {
      this.run.warn(`The last checkpoint could not be written: ${errorMessage(error)}`);
    }
    this.files.close();
    this.run.directory.lock?.release();
    await this.run.close();
  }
}
