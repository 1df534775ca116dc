/** A run in progress: drives the loop and writes the run directory. */
import { AcoerError, errorCode, errorMessage } from '../errors';
import { completeRollbacks, findCheckpoint, recordRollback, type Rollback } from '../run';
import { betterOf, evaluatePolicy, evaluationMetrics } from './evaluation';
import type { EvalPhase, Evaluation, RunSummary, TrainStep } from './events';
import { RunFiles, type RunFilesParts } from './files';
import { guardOf, planRollback, type CollapseGuard } from './guard';
import { Halt } from './halt';
import type { LoopContext } from '../grpo/context';
import { trainSteps, type LoopStep } from '../grpo/loop';
import { NoSignal } from './no-signal';
import { settleRefusal } from './refusal';
import { restoreRun } from './start';
import type { RunState } from './state';

export interface RunParts extends RunFilesParts {
  start: RunState;
  /** The state is not in a checkpoint of this directory yet. */
  unsaved?: boolean;
  signal?: AbortSignal;
}

/** The steps of a run as they are made, each written before it is handed out. Returns the run's summary. */
export class RunDriver {
  private state: RunState;
  private readonly files: RunFiles;
  private readonly guard: CollapseGuard;
  private readonly halt: Halt;
  private readonly noSignal: NoSignal;
  private readonly loop: LoopContext;
  /** The version of the policy that belongs to `state`. */
  private weights: number;
  /** The state is newer than the newest checkpoint. */
  private unsaved = false;

  constructor(private readonly parts: RunParts) {
    const { config, signal, session, start } = parts;
    this.state = start;
    this.unsaved = parts.unsaved === true;
    this.guard = guardOf(config);
    this.noSignal = new NoSignal(config);
    this.halt = new Halt(signal);
    this.files = new RunFiles(parts, this.halt.waiting);
    this.files.openMetrics(start);
    this.loop = {
      ...session.loop,
      signal: this.halt.step,
      onDecoded: (done, total) => parts.emit({ type: 'decode-progress', step: this.step + 1, done, total }),
    };
    this.weights = this.loop.policy.version;
    parts.watchdog.step = this.step;
    parts.watchdog.onStop = (error) => this.halt.hang(error);
    if (parts.watchdog.hung !== null) this.halt.hang(parts.watchdog.hung);
    this.loop.memory.warn = (message) => this.warn(message);
  }

  private get step(): number {
    return this.state.position.state.step;
  }

  /** Ends the run with a checkpoint after the step in progress, or without that step when it takes too long. */
  stop(): void {
    this.halt.stop();
  }

  async *drive(): AsyncGenerator<TrainStep, RunSummary> {
    try {
      await this.rewindSinks();
      if (this.state.base === null) {
        this.state.base = await this.evaluate('base');
        this.unsaved ||= this.step === 0 && this.parts.session.evalData !== null;
      }
      await this.saveStart();
      while (yield* this.steps()) this.throwIfStopping();
      return await this.finish();
    } catch (error) {
      throw this.ending(error);
    } finally {
      await this.close();
    }
  }

  /** A fork stands on its own from its first step; and there is always a checkpoint to roll back to. */
  private async saveStart(): Promise<void> {
    const { config, directory } = this.parts;
    const goesBack = config.onCollapse === 'rollback' || config.nonFinitePolicy === 'rollback';
    if (goesBack && directory.checkpointSteps().length === 0) this.unsaved = true;
    await this.save();
  }

  /** The steps to the end; true when a rollback broke them off. */
  private async *steps(): AsyncGenerator<TrainStep, boolean> {
    if (this.state.pending !== null) yield await this.completeStep();
    if (await this.rolledBack()) return true;
    for await (const step of trainSteps(this.loop, this.state.position)) {
      if (await this.refused(step)) return true;
      await this.record(step);
      yield await this.completeStep();
      if (await this.rolledBack()) return true;
      this.throwIfStopping();
    }
    return false;
  }

  private throwIfStopping(): void {
    if (this.halt.stopping) throw new AcoerError('INTERRUPTED', this.stopMessage());
  }

  /**
   * After a collapse: goes back to the last healthy checkpoint, with less pressure and other seeds, or ends the run.
   * False when there was none.
   */
  private async rolledBack(): Promise<boolean> {
    const { config, directory } = this.parts;
    const { guard, position } = this.state;
    if (guard.collapse === null || config.onCollapse === 'warn') return false;
    // When the run ends here, it can be resumed all the same.
    this.state.guard = { ...guard, collapse: null };
    this.unsaved = true;
    const found = { loop: position.state, guard };
    await this.goBack(planRollback(config, found, directory.checkpointSteps(), guard.collapse), 'COLLAPSED');
    return true;
  }

  /** Dumps a refused step and acts on it; true when that was a rollback. */
  private async refused(step: LoopStep): Promise<boolean> {
    const { refusal } = step;
    if (refusal === null) return false;
    // Nothing of the step was applied.
    this.weights = this.loop.policy.version;
    const rollback = await settleRefusal(this.parts, this.files, this.state, { ...step, refusal });
    if (rollback !== null) await this.goBack(rollback, 'NOT_FINITE');
    return rollback !== null;
  }

  private async goBack(rollback: Rollback, code: 'COLLAPSED' | 'NOT_FINITE'): Promise<void> {
    const { directory, emit } = this.parts;
    // From here on only the checkpoint gone back to counts.
    this.unsaved = false;
    await this.files.write('rollbacks.json', () => recordRollback(directory, rollback));
    await this.files.write('rollbacks.json', () => completeRollbacks(directory));
    const checkpoint = findCheckpoint(directory, (message) => this.warn(message));
    if (checkpoint === null) throw new AcoerError(code, `${rollback.reason} No checkpoint is whole.`);
    this.state = await restoreRun(directory, checkpoint, this.loop);
    this.weights = this.loop.policy.version;
    this.files.openMetrics(this.state);
    await this.rewindSinks();
    emit({ type: 'rollback', rollback });
  }

  /** A line that is still to be completed is given again. */
  private rewindSinks(): Promise<void> {
    const { pending } = this.state;
    return this.parts.sinks.give('rewind', pending === null ? this.step : this.step - 1);
  }

  /** From here on the step counts as made. What cannot be written later, the table, is written before. */
  private async record(step: LoopStep): Promise<void> {
    if (step.generated !== null) {
      await this.files.table(step.index, step.generated);
      const unhelpful = this.noSignal.observe(step.generated);
      if (unhelpful !== null) this.warn(unhelpful);
    }
    this.state.position = step.position;
    this.state.pending = step.metrics;
    this.weights = this.loop.policy.version;
    this.unsaved = true;
  }

  /** Shows a finished line to the monitor, and puts its numbers into it. The monitor passes over a line it has seen. */
  private watch(metrics: LoopStep['metrics']): void {
    const { state } = this;
    const { state: monitor, change } = this.guard.observe(state.guard.monitor, metrics, state.base);
    state.guard = { ...state.guard, monitor };
    if (change !== null) this.parts.emit({ type: 'health', change });
    const acted = this.parts.config.onCollapse !== 'warn';
    if (acted && change?.to === 'collapsed') state.guard.collapse = change.reason;
    Object.assign(metrics, this.guard.metrics(monitor, state.position.state.eased));
  }

  /** Evaluates when that is due, writes the pending line and what follows from it. */
  private async completeStep(): Promise<TrainStep> {
    const { state, step } = this;
    const metrics = state.pending!;
    const improved = await this.evaluateStep(metrics);
    this.watch(metrics);
    await this.files.append(metrics);
    state.pending = null;
    this.parts.emit({ type: 'step', index: step, metrics });
    if (improved || this.saveIsDue(step)) await this.save();
    return { index: step, metrics };
  }

  /** Adds the evaluation of this step to its metrics when one is due; whether it is the best so far. */
  private async evaluateStep(metrics: LoopStep['metrics']): Promise<boolean> {
    const { config, session } = this.parts;
    const { state, step } = this;
    if (config.evalSteps === 0 || step % config.evalSteps !== 0 || session.evalData === null) return false;
    if (state.latest?.step !== step) {
      const evaluation = await this.evaluate('step').catch((error: unknown) => this.unevaluated(error));
      if (evaluation === null) return false;
      state.latest = { step, evaluation };
    }
    Object.assign(metrics, evaluationMetrics(state.latest.evaluation));
    state.best = betterOf(state.best, state.latest);
    return state.best?.step === step;
  }

  /** Logits that are not finite end an evaluation, and the run unless it goes on behind refused steps. */
  private unevaluated(error: unknown): null {
    if (errorCode(error) !== 'NOT_FINITE' || this.parts.config.nonFinitePolicy === 'stop') throw error;
    this.warn(`Step ${this.step} is not evaluated: ${errorMessage(error)}`);
    return null;
  }

  private saveIsDue(step: number): boolean {
    const { saveSteps, maxSteps } = this.parts.config;
    // Behind a refused step the weights are nothing new and may be to blame: older checkpoints are worth more.
    if (this.state.position.state.refused > 0 && step < maxSteps) return false;
    return step === maxSteps || (saveSteps > 0 && step % saveSteps === 0);
  }

  private async save(signal?: AbortSignal): Promise<void> {
    const { step } = this;
    // A failure between an update and its state: the weights fit no state that could be saved.
    if (!this.unsaved || this.loop.policy.version !== this.weights) return;
    const { guard, position } = this.state;
    if (guard.monitor.health === 'healthy' && position.state.refused === 0) {
      this.state.guard = { ...guard, healthy: step };
    }
    await this.files.checkpoint(this.state, signal);
    this.unsaved = false;
  }

  private async finish(): Promise<RunSummary> {
    const { config, directory, session } = this.parts;
    const { latest, base, position } = this.state;
    const step = config.maxSteps;
    const { refused } = position.state;
    if (refused > 0)
      this.warn(`The last ${refused} steps were refused: the result is that of step ${step - refused}.`);
    const trained = latest?.step === step ? latest.evaluation : await this.evaluate('trained');
    const best = betterOf(this.state.best, { step, evaluation: trained });
    // A kill may have come between the last checkpoint and the end of those it replaces.
    await this.files.prune(this.state);
    const reward = session.loop.rewards.map((entry) => entry.reward.name).join('+');
    const { rollbacks } = this.state.position.state.eased;
    const run = { directory: directory.path, reward, seed: config.seed, steps: step, best, rollbacks };
    const summary: RunSummary = { base: base!, trained, run };
    await this.files.final(summary);
    return summary;
  }

  private evaluate(phase: EvalPhase): Promise<Evaluation> {
    const { config, session, emit, watchdog: watch } = this.parts;
    const { model, tokenizer, policy } = session.loop;
    const context = { config, model, tokenizer, dataset: session.evalData, emit, watch };
    const base = phase === 'base';
    return watch.phase(base ? 'baseEvaluation' : 'evaluation', () =>
      evaluatePolicy(context, base ? null : policy, phase, this.halt.waiting),
    );
  }

  private stopMessage(): string {
    const resume = `acoer train --resume ${this.parts.directory.path}`;
    return `Interrupted after step ${this.step}; go on with: ${resume}`;
  }

  /** An abort shows up as whatever the aborted call threw; for the caller it is one thing: INTERRUPTED. */
  private ending(error: unknown): unknown {
    if (this.parts.watchdog.hung !== null) return this.parts.watchdog.hung;
    const { path } = this.parts.directory;
    if (errorCode(error) === 'WRITE_FAILED') {
      const advice = `The run ended after step ${this.step}; once it can be written: acoer train --resume ${path}`;
      return new AcoerError('WRITE_FAILED', `${errorMessage(error)} ${advice}`, { cause: error });
    }
    if (errorCode(error) === 'OUT_OF_MEMORY') {
      const advice = `The run ended after step ${this.step}; with more memory: acoer train --resume ${path}; under other settings: acoer fork ${path} --at ${this.step} --set ...`;
      return new AcoerError('OUT_OF_MEMORY', `${errorMessage(error)} ${advice}`, { cause: error });
    }
    if (!this.halt.caused(error)) return error;
    return new AcoerError('INTERRUPTED', this.stopMessage(), { cause: error });
  }

  /** However the run ended: keeps what can be resumed, frees everything. */
  async close(): Promise<void> {
    const { watchdog } = this.parts;
    this.halt.dispose();
    try {
      if (!watchdog.abandoned) await this.save(AbortSignal.abort());
    } catch (error) {
      this.warn(`The last checkpoint could not be written: ${errorMessage(error)}`);
    }
    try {
      await this.end();
    } finally {
      this.files.close();
      watchdog.close();
      await this.parts.sinks.close();
    }
  }

  /** An engine that answers no call would not answer that either. */
  private async end(): Promise<void> {
    const { session, watchdog } = this.parts;
    if (!watchdog.abandoned) await watchdog.phase('checkpoint', () => session.close());
    else await session.abandon();
  }

  private warn(message: string): void {
    this.parts.emit({ type: 'warning', message });
  }
}
