/** A run in progress: drives the loop, evaluates, saves, and acts on the result of each step. */
import { AcoerError, errorCode, errorMessage } from '../errors';
import { completeRollbacks, findCheckpoint, isFull, recordRollback, type Rollback } from '../run';
import { afterStep, type RefusedStep } from './after-step';
import { evaluationMetrics } from '../life/evaluation-metrics';
import { betterOf, evaluatePolicy, type EvaluationContext } from './evaluation';
import type { EvalPhase, Evaluation, RunSummary, TrainStep } from '../life/events';
import { TrainFiles } from './files';
import { guardOf, type CollapseGuard } from './guard';
import { Halt } from '../life/halt';
import type { LoopContext, LoopControl } from '../grpo/context';
import { trainSteps } from '../grpo/loop';
import type { LoopStep } from '../grpo/step';
import { NO_WATCH } from '../grpo/watch';
import { NoSignal } from './no-signal';
import type { Opened } from './opened';
import type { Outcome } from '../life/progress';
import { restoreRun } from './start';
import type { RunState } from './state';

export const resumeCommand = (directory: string): string => `acoer train --resume ${directory}`;

/** Makes the steps of a run, each written before it is handed out. */
export class RunDriver {
  private readonly files: TrainFiles;
  private readonly guard: CollapseGuard;
  private readonly halt: Halt;
  private readonly noSignal: NoSignal;
  private readonly loop: LoopContext;
  private readonly control: LoopControl;
  /** The version of the policy that belongs to `state`. */
  private weights: number;
  /** The state is newer than the newest checkpoint. */
  private unsaved: boolean;
  private outcome: Outcome = 'interrupted';

  private constructor(
    private readonly run: Opened,
    private state: RunState,
  ) {
    const { config, signal, emit, watchdog } = run;
    // A fork's state is in a checkpoint of another directory.
    this.unsaved = run.fork !== undefined;
    this.guard = guardOf(config);
    this.noSignal = new NoSignal(config);
    this.halt = new Halt(signal);
    this.files = new TrainFiles(run, this.halt.waiting);
    this.loop = run.loop;
    this.control = {
      signal: this.halt.step,
      onDecoded: (progress) => emit({ type: 'decode-progress', step: this.step + 1, ...progress }),
    };
    this.weights = this.loop.policy.version;
    watchdog.atStep(this.step);
    watchdog.onStop = (error) => this.halt.hang(error);
    if (watchdog.hung !== null) this.halt.hang(watchdog.hung);
    run.sinks.ending = this.halt.waiting;
  }

  /** Takes the run over: from now on `close` or `drive` closes what is open, unless this fails. */
  static async start(run: Opened, state: RunState): Promise<RunDriver> {
    const driver = new RunDriver(run, state);
    try {
      await driver.files.rewindTo(state);
    } catch (error) {
      driver.halt.dispose();
      throw error;
    }
    return driver;
  }

  private get step(): number {
    return this.state.loop.step;
  }

  /** Ends the run with a checkpoint: after the step in progress, or without it when that takes too long. */
  stop(): void {
    this.halt.stop();
  }

  /** What the run does now, for a message about a process that ends meanwhile. */
  doing(): string {
    const { running: phase } = this.run.watchdog;
    return `${phase === null ? 'after' : `in the phase ${phase} after`} step ${this.step}; resume with: ${resumeCommand(this.run.directory.path)}`;
  }

  /** Lets others open the run's folder, when this process ends. */
  release(): void {
    this.run.directory.lock?.release();
  }

  async *drive(): AsyncGenerator<TrainStep, RunSummary> {
    try {
      if (this.state.base === null) {
        this.state.base = await this.evaluate('base');
        this.unsaved ||= this.step === 0 && this.run.inputs.evalData !== null;
      }
      await this.saveStart();
      while (yield* this.steps()) this.throwIfStopping();
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

  /** Saves before the first step: a fork no longer needs its source, and a rollback has a checkpoint. */
  private async saveStart(): Promise<void> {
    const { config, directory } = this.run;
    const mayRollBack = config.onCollapse === 'rollback' || config.nonFinitePolicy === 'rollback';
    if (mayRollBack && directory.checkpointSteps().length === 0) this.unsaved = true;
    await this.save();
  }

  /** The steps up to the end or a rollback; returns true after a rollback. */
  private async *steps(): AsyncGenerator<TrainStep, boolean> {
    if (this.state.pending !== null) yield await this.completeStep();
    if (await this.rollsBack(null)) return true;
    for await (const step of trainSteps(this.loop, this.state, this.control)) {
      const refused = await this.dumpRefused(step);
      if (refused !== null && (await this.rollsBack(refused))) return true;
      await this.record(step);
      yield await this.completeStep();
      if (await this.rollsBack(null)) return true;
      this.throwIfStopping();
    }
    return false;
  }

  private throwIfStopping(): void {
    if (this.halt.stopping) throw new AcoerError('INTERRUPTED', this.stopMessage());
  }

  /** Writes the dump of a step that was refused. */
  private async dumpRefused({ index, refusal, metrics, position }: LoopStep): Promise<RefusedStep | null> {
    if (refusal === null) return null;
    // Nothing of the step was applied, so the weights still belong to the state.
    this.weights = this.loop.policy.version;
    const dump = await this.files.dump(this.state, { index, refusal, metrics });
    return { index, refusal, inARow: position.loop.refused, dump };
  }

  /** Does what follows from a step; returns true after a rollback. */
  private async rollsBack(refused: RefusedStep | null): Promise<boolean> {
    const { config, directory } = this.run;
    const next = afterStep(config, this.state, directory.checkpointSteps(), refused);
    if (next.do === 'go on') {
      if (next.warning !== null) this.warn(next.warning);
      return false;
    }
    if (next.do === 'end') {
      if (refused === null) this.forgetCollapse();
      throw next.error;
    }
    await this.rollBack(next.rollback, next.code);
    return true;
  }

  /** A run that a collapse has ended can be resumed: the collapse is acted on once. */
  private forgetCollapse(): void {
    this.state.guard = { ...this.state.guard, collapse: null };
    this.unsaved = true;
  }

  private async rollBack(rollback: Rollback, code: 'COLLAPSED' | 'NOT_FINITE'): Promise<void> {
    const { directory, emit } = this.run;
    // From here on only the checkpoint that is restored counts.
    this.unsaved = false;
    await this.files.write('rollbacks.json', () => recordRollback(directory, rollback));
    await this.files.write('rollbacks.json', () => completeRollbacks(directory));
    const checkpoint = await findCheckpoint(directory, (message) => this.warn(message));
    if (checkpoint === null) throw new AcoerError(code, `${rollback.reason} No checkpoint is whole.`);
    this.state = await restoreRun(directory, checkpoint, this.loop);
    this.weights = this.loop.policy.version;
    await this.files.rewindTo(this.state);
    emit({ type: 'rollback', rollback });
  }

  /** From here on the step counts as made. Its table is written first, because it cannot be recreated. */
  private async record(step: LoopStep): Promise<void> {
    if (step.generated !== null) {
      await this.files.completions(step.index, step.generated);
      const unhelpful = this.noSignal.observe(step.generated);
      if (unhelpful !== null) this.warn(unhelpful);
    }
    Object.assign(this.state, step.position);
    this.state.pending = step.metrics;
    this.weights = this.loop.policy.version;
    this.unsaved = true;
  }

  /** Shows a finished line to the monitor, which ignores one it has seen, and adds the monitor's numbers. */
  private watch(metrics: LoopStep['metrics']): void {
    const { state } = this;
    const { state: monitor, change } = this.guard.observe(state.guard.monitor, metrics, state.base);
    state.guard = { ...state.guard, monitor };
    if (change !== null) this.run.emit({ type: 'health', change });
    const acted = this.run.config.onCollapse !== 'warn';
    if (acted && change?.to === 'collapsed') state.guard.collapse = change.reason;
    Object.assign(metrics, this.guard.metrics(monitor, state.loop.eased));
  }

  /** Evaluates if that is due, writes the pending line, and saves if that is due. */
  private async completeStep(): Promise<TrainStep> {
    const { state, step } = this;
    const metrics = state.pending!;
    const improved = await this.evaluateStep(metrics);
    this.watch(metrics);
    await this.files.give('step', metrics);
    state.pending = null;
    this.run.emit({ type: 'step', index: step, metrics });
    if (improved || this.saveIsDue(step)) await this.save();
    return { index: step, metrics };
  }

  /** Adds this step's evaluation to its metrics if one is due. True: it is the best so far. */
  private async evaluateStep(metrics: LoopStep['metrics']): Promise<boolean> {
    const { config, inputs } = this.run;
    const { state, step } = this;
    if (config.evalSteps === 0 || step % config.evalSteps !== 0 || inputs.evalData === null) return false;
    if (state.latest?.step !== step) {
      const evaluation = await this.evaluate('step').catch((error: unknown) => this.unevaluated(error));
      if (evaluation === null) return false;
      state.latest = { step, evaluation };
    }
    Object.assign(metrics, evaluationMetrics(state.latest.evaluation));
    state.best = betterOf(state.best, state.latest);
    return state.best?.step === step;
  }

  /** Non-finite logits end the evaluation; they also end the run if `nonFinitePolicy` is `stop`. */
  private unevaluated(error: unknown): null {
    if (errorCode(error) !== 'NOT_FINITE' || this.run.config.nonFinitePolicy === 'stop') throw error;
    this.warn(`Step ${this.step} is not evaluated: ${errorMessage(error)}`);
    return null;
  }

  private saveIsDue(step: number): boolean {
    const { saveSteps, maxSteps } = this.run.config;
    // After a refused step the weights are not new and may be at fault: older checkpoints are worth more.
    if (this.state.loop.refused > 0 && step < maxSteps) return false;
    return step === maxSteps || (saveSteps > 0 && step % saveSteps === 0);
  }

  private async save(signal?: AbortSignal): Promise<void> {
    const { step } = this;
    // After a failure between an update and its state, the weights belong to no state that could be saved.
    if (!this.unsaved || this.loop.policy.version !== this.weights) return;
    const { guard, loop } = this.state;
    if (guard.monitor.health === 'healthy' && loop.refused === 0) {
      this.state.guard = { ...guard, healthy: step };
    }
    await this.files.checkpoint(this.state, signal);
    this.unsaved = false;
  }

  private async finish(): Promise<RunSummary> {
    const { config, directory, inputs, accepted } = this.run;
    const { latest, base, loop } = this.state;
    const step = config.maxSteps;
    const { refused } = loop;
    if (refused > 0)
      this.warn(`The last ${refused} steps were refused: the result is that of step ${step - refused}.`);
    const trained = latest?.step === step ? latest.evaluation : await this.evaluate('trained');
    const best = betterOf(this.state.best, { step, evaluation: trained });
    // The process may have been killed after the last checkpoint and before the old ones were removed.
    await this.files.prune(this.state);
    const reward = inputs.rewards.map((entry) => entry.reward.name).join('+');
    const { rollbacks } = this.state.loop.eased;
    const run = { directory: directory.path, reward, seed: config.seed, steps: step, best, rollbacks };
    const changes = accepted.length > 0 ? { accepted } : {};
    const summary: RunSummary = { base: base!, trained, run: { ...run, ...changes } };
    await this.files.final(summary);
    return summary;
  }

  private evaluate(phase: EvalPhase): Promise<Evaluation> {
    const { config, inputs, emit, watchdog: watch } = this.run;
    const { model, tokenizer, policy, reference } = this.loop;
    const save: EvaluationContext['save'] = (kind, rows) => this.files.answers(this.step, kind, rows);
    const { evalData: dataset, judge } = inputs;
    const context = { config, model, tokenizer, grade: judge.evaluation, dataset, emit, save, watch };
    const base = phase === 'base';
    return watch.phase(base ? 'baseEvaluation' : 'evaluation', () =>
      evaluatePolicy(context, base ? reference : policy, phase, this.halt.waiting),
    );
  }

  private stopMessage(): string {
    return `Interrupted after step ${this.step}; resume with: ${resumeCommand(this.run.directory.path)}`;
  }

  /** The error for the caller. Whatever an aborted call threw becomes INTERRUPTED. */
  private ending(error: unknown): unknown {
    if (this.run.watchdog.hung !== null) return this.run.watchdog.hung;
    const { path } = this.run.directory;
    // Asked to stop while it waited for space: that is no failure.
    if (this.halt.waiting.aborted && errorCode(error) === 'WRITE_FAILED' && isFull((error as Error).cause)) {
      const message = `${this.stopMessage()} (${errorMessage(error)})`;
      return new AcoerError('INTERRUPTED', message, { cause: error });
    }
    if (errorCode(error) === 'WRITE_FAILED') {
      const advice = `The run ended after step ${this.step}; once the disk can be written: acoer train --resume ${path}`;
      return new AcoerError('WRITE_FAILED', `${errorMessage(error)} ${advice}`, { cause: error });
    }
    if (errorCode(error) === 'OUT_OF_MEMORY') {
      const advice = `The run ended after step ${this.step}; with more memory: acoer train --resume ${path}; under other settings: acoer fork ${path} --at ${this.step} --set ...`;
      return new AcoerError('OUT_OF_MEMORY', `${errorMessage(error)} ${advice}`, { cause: error });
    }
    if (!this.halt.caused(error)) return error;
    return new AcoerError('INTERRUPTED', this.stopMessage(), { cause: error });
  }

  /** However the run ended: saves what can be resumed and frees everything. */
  async close(): Promise<void> {
    const { watchdog } = this.run;
    this.halt.dispose();
    try {
      if (!watchdog.abandoned) await this.save(AbortSignal.abort());
    } catch (error) {
      this.warn(`The last checkpoint could not be written: ${errorMessage(error)}`);
    }
    try {
      await this.end();
    } finally {
      await this.run.progress.end(this.outcome);
      this.files.close();
      if (watchdog.abandoned) this.run.sinks.watch = NO_WATCH;
      await this.run.sinks.close();
      watchdog.close();
    }
  }

  private async end(): Promise<void> {
    const { run } = this;
    const { watchdog } = run;
    if (watchdog.abandoned) await run.close(false);
    else await watchdog.phase('checkpoint', () => run.close(true));
  }

  private warn(message: string): void {
    this.run.emit({ type: 'warning', message });
  }
}
