/** A run in progress: drives the loop and writes the run directory. */
import type { Config } from '../config';
import { AcoerError, errorCode, errorMessage } from '../errors';
import {
  adapterConfig,
  completeRollbacks,
  findCheckpoint,
  finiteMetrics,
  MetricsFile,
  PATIENCE,
  pruneCheckpoints,
  recordRollback,
  saveAdapter,
  saveCheckpoint,
  writeCompletions,
  writeJsonAtomic,
  writePatiently,
} from '../run';
import type { Patience, RunDirectory } from '../run';
import type { GenerationBatch } from './batch';
import { dumpBatch } from './dump';
import { betterOf, evaluatePolicy, evaluationMetrics } from './evaluation';
import type { EvalPhase, Evaluation, RunSummary, TrainEvent, TrainStep } from './events';
import { guardOf, planRollback, type CollapseGuard } from './guard';
import { trainSteps, type LoopStep } from './loop';
import type { Session } from './session';
import { restoreRun } from './start';
import { storedState, type RunState } from './state';

/** How long a step may go on once the run is asked to stop; the checkpoint has to fit into 5 s as well. */
const STOP_GRACE_MS = 2_500;

export interface RunParts {
  directory: RunDirectory;
  config: Config;
  session: Session;
  start: RunState;
  /** The state is not in a checkpoint of this directory yet. */
  unsaved?: boolean;
  emit: (event: TrainEvent) => void;
  signal?: AbortSignal;
  /** With a full disk. */
  patience?: Patience;
}

/** The steps of a run as they are made, each written before it is handed out. Returns the run's summary. */
export class RunDriver {
  private state: RunState;
  private metrics: MetricsFile;
  private readonly guard: CollapseGuard;
  /** Fires on `stop` and on the caller's signal: ends evaluations and waiting at once. */
  private readonly halt = new AbortController();
  /** Fires on the caller's signal, and some time after `stop`: ends the step in progress. */
  private readonly abandon = new AbortController();
  private stopping = false;
  private deadline: NodeJS.Timeout | undefined;
  /** The state is newer than the newest checkpoint. */
  private unsaved = false;

  constructor(private readonly parts: RunParts) {
    const { config, signal, session, start } = parts;
    this.state = start;
    this.unsaved = parts.unsaved === true;
    this.guard = guardOf(config);
    this.metrics = this.openMetrics();
    session.loop.policyStep = this.step;
    session.loop.signal = this.abandon.signal;
    signal?.addEventListener('abort', this.onAbort);
    if (signal?.aborted) this.onAbort();
  }

  /** Goes on behind the last step of the state. */
  private openMetrics(): MetricsFile {
    // A line that is still to be completed is written again.
    const written = this.state.pending === null ? this.step : this.step - 1;
    return new MetricsFile(this.parts.directory.metrics(), written, (message) => this.warn(message));
  }

  private readonly onAbort = () => {
    this.halt.abort(this.parts.signal?.reason);
    this.abandon.abort(this.parts.signal?.reason);
  };

  private get step(): number {
    return this.state.position.state.step;
  }

  /** Ends the run with a checkpoint after the step in progress, or without that step when it takes too long. */
  stop(): void {
    this.stopping = true;
    this.halt.abort();
    this.deadline ??= setTimeout(() => this.abandon.abort(), STOP_GRACE_MS).unref();
  }

  async *drive(): AsyncGenerator<TrainStep, RunSummary> {
    try {
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
    if (config.onCollapse === 'rollback' && directory.checkpointSteps().length === 0) this.unsaved = true;
    await this.save();
  }

  /** The steps to the end; true when a rollback broke them off. */
  private async *steps(): AsyncGenerator<TrainStep, boolean> {
    const { session, emit } = this.parts;
    const { loop } = session;
    loop.onDecoded = (done, total) => emit({ type: 'decode-progress', step: this.step + 1, done, total });
    if (this.state.pending !== null) yield await this.completeStep();
    if (await this.rolledBack()) return true;
    for await (const step of trainSteps(loop, this.state.position)) {
      await this.record(step);
      yield await this.completeStep(step);
      if (await this.rolledBack()) return true;
      this.throwIfStopping();
    }
    return false;
  }

  private throwIfStopping(): void {
    if (this.stopping) throw new AcoerError('INTERRUPTED', this.stopMessage());
  }

  /**
   * After a collapse: goes back to the last healthy checkpoint, with less pressure and other seeds, or ends the run.
   * False when there was none.
   */
  private async rolledBack(): Promise<boolean> {
    const { config, directory, session, emit } = this.parts;
    const { guard, position } = this.state;
    if (guard.collapse === null || config.onCollapse === 'warn') return false;
    // When the run ends here, it can be resumed all the same.
    this.state.guard = { ...guard, collapse: null };
    this.unsaved = true;
    const found = { loop: position.state, guard };
    const rollback = planRollback(config, found, directory.checkpointSteps(), guard.collapse);
    // From here on only the checkpoint gone back to counts.
    this.unsaved = false;
    await this.write('rollbacks.json', () => recordRollback(directory, rollback));
    await this.write('rollbacks.json', () => completeRollbacks(directory));
    const checkpoint = findCheckpoint(directory, (message) => this.warn(message));
    if (checkpoint === null) throw new AcoerError('COLLAPSED', `${rollback.reason} No checkpoint is whole.`);
    session.loop.policyStep = null;
    this.state = await restoreRun(directory, checkpoint, session.loop);
    session.loop.policyStep = this.step;
    this.metrics.close();
    this.metrics = this.openMetrics();
    emit({ type: 'rollback', rollback });
    return true;
  }

  /** From here on the step counts as made. What cannot be written later, the table, is written before. */
  private async record(step: LoopStep): Promise<void> {
    if (step.generated !== null) await this.writeTable(step.index, step.generated);
    this.watch(step);
    this.state.position = step.position;
    this.state.pending = step.metrics;
    this.unsaved = true;
  }

  /** Shows a new batch to the monitor, once, and puts its numbers into the metrics. */
  private watch({ generated, metrics, position }: LoopStep): void {
    const { state } = this;
    if (generated !== null) {
      const { state: monitor, change } = this.guard.observe(state.guard.monitor, metrics);
      state.guard = { ...state.guard, monitor };
      if (change !== null) this.parts.emit({ type: 'health', change });
      const acted = this.parts.config.onCollapse !== 'warn';
      if (acted && change?.to === 'collapsed') state.guard.collapse = change.reason;
    }
    Object.assign(metrics, this.guard.metrics(state.guard.monitor, position.state.eased));
  }

  /** Evaluates when that is due, writes the pending line and what follows from it. */
  private async completeStep(made?: LoopStep): Promise<TrainStep> {
    const { state, step } = this;
    const metrics = state.pending!;
    const improved = await this.evaluateStep(metrics);
    await this.write('metrics.jsonl', () => this.metrics.append(metrics));
    state.pending = null;
    this.parts.emit({ type: 'step', index: step, metrics });
    if (made?.update.applied === false) await this.refused(made);
    if (improved || this.saveIsDue(step)) await this.save();
    return { index: step, metrics };
  }

  /** Adds the evaluation of this step to its metrics when one is due; whether it is the best so far. */
  private async evaluateStep(metrics: LoopStep['metrics']): Promise<boolean> {
    const { config, session } = this.parts;
    const { state, step } = this;
    if (config.evalSteps === 0 || step % config.evalSteps !== 0 || session.evalData === null) return false;
    if (state.latest?.step !== step) state.latest = { step, evaluation: await this.evaluate('step') };
    Object.assign(metrics, evaluationMetrics(state.latest.evaluation));
    state.best = betterOf(state.best, state.latest);
    return state.best?.step === step;
  }

  private async writeTable(step: number, { samples }: GenerationBatch): Promise<void> {
    const { config, directory } = this.parts;
    if (config.completionsSteps === 0 || step % config.completionsSteps !== 0) return;
    const path = directory.completions(step);
    await this.write(path, () => writeCompletions(path, step, samples));
  }

  private async refused(step: LoopStep): Promise<void> {
    const path = this.parts.directory.nonFinite(step.index);
    await this.write(path, () => dumpBatch(path, step));
    const message = `Step ${step.index}: loss or gradient is not finite, so nothing was changed; the batch is in ${path}.`;
    if (this.parts.config.nonFinitePolicy === 'stop') throw new AcoerError('NOT_FINITE', message);
    this.warn(message);
  }

  private saveIsDue(step: number): boolean {
    const { saveSteps, maxSteps } = this.parts.config;
    return step === maxSteps || (saveSteps > 0 && step % saveSteps === 0);
  }

  private async save(signal = this.halt.signal): Promise<void> {
    const { config, directory, session, emit } = this.parts;
    const { step } = this;
    const { policy, dataset, policyStep, engine } = session.loop;
    // A failure between an update and its state: the weights fit no state that could be saved.
    if (!this.unsaved || policyStep !== step) return;
    if (this.state.guard.monitor.health === 'healthy')
      this.state.guard = { ...this.state.guard, healthy: step };
    const pending = this.state.pending && finiteMetrics(this.state.pending).finite;
    const stored = storedState({ ...this.state, pending }, config, dataset.size, engine.deviceInfo.device);
    const content = { adapterConfig: adapterConfig(config, config.model), ...stored };
    const path = directory.checkpoint(step);
    const save = async () => {
      this.metrics.sync();
      await saveCheckpoint(directory, step, policy, content);
    };
    await this.write(path, save, signal);
    this.unsaved = false;
    emit({ type: 'checkpoint', step, path });
    await this.prune(signal);
  }

  private prune(signal?: AbortSignal): Promise<void> {
    const { config, directory } = this.parts;
    const { best, guard } = this.state;
    const always = [best?.step ?? this.step, guard.healthy ?? this.step];
    const path = directory.checkpoints();
    return this.write(path, () => pruneCheckpoints(directory, config.keepCheckpoints, always), signal);
  }

  private async finish(): Promise<RunSummary> {
    const { config, directory, session } = this.parts;
    const { latest, base } = this.state;
    const step = config.maxSteps;
    const trained = latest?.step === step ? latest.evaluation : await this.evaluate('trained');
    const best = betterOf(this.state.best, { step, evaluation: trained });
    // A kill may have come between the last checkpoint and the end of those it replaces.
    await this.prune();
    const reward = session.loop.rewards.map((entry) => entry.reward.name).join('+');
    const { rollbacks } = this.state.position.state.eased;
    const run = { directory: directory.path, reward, seed: config.seed, steps: step, best, rollbacks };
    const summary: RunSummary = { base: base!, trained, run };
    await this.write(directory.final(), () =>
      saveAdapter(directory.final(), session.loop.policy, adapterConfig(config, config.model)),
    );
    await this.write(directory.summary(), () => writeJsonAtomic(directory.summary(), summary));
    return summary;
  }

  /** Every file of the run goes through here: the directory must still be this run's, and have space. */
  private write(what: string, work: () => void | Promise<void>, signal = this.halt.signal): Promise<void> {
    const attempt = () => {
      this.parts.directory.lock?.assertHeld();
      return work();
    };
    const warn = (message: string) => this.warn(message);
    return writePatiently(what, attempt, this.parts.patience ?? PATIENCE, warn, signal);
  }

  private evaluate(phase: EvalPhase): Promise<Evaluation> {
    const { config, session, emit } = this.parts;
    const { model, tokenizer, policy } = session.loop;
    const context = { config, model, tokenizer, dataset: session.evalData, emit };
    return evaluatePolicy(context, phase === 'base' ? null : policy, phase, this.halt.signal);
  }

  private stopMessage(): string {
    const resume = `acoer train --resume ${this.parts.directory.path}`;
    return `Interrupted after step ${this.step}; go on with: ${resume}`;
  }

  /** An abort shows up as whatever the aborted call threw; for the caller it is one thing: INTERRUPTED. */
  private ending(error: unknown): unknown {
    const { path } = this.parts.directory;
    if (errorCode(error) === 'WRITE_FAILED') {
      const advice = `The run ended after step ${this.step}; once it can be written: acoer train --resume ${path}`;
      return new AcoerError('WRITE_FAILED', `${errorMessage(error)} ${advice}`, { cause: error });
    }
    const cancelled = errorCode(error) === 'CANCELLED' || (error as Error | undefined)?.name === 'AbortError';
    const asked = this.abandon.signal.aborted && error === this.abandon.signal.reason;
    if (!this.halt.signal.aborted || !(cancelled || asked)) return error;
    return new AcoerError('INTERRUPTED', this.stopMessage(), { cause: error });
  }

  /** However the run ended: keeps what can be resumed, frees everything. */
  async close(): Promise<void> {
    clearTimeout(this.deadline);
    this.parts.signal?.removeEventListener('abort', this.onAbort);
    try {
      await this.save(AbortSignal.abort());
    } catch (error) {
      this.warn(`The last checkpoint could not be written: ${errorMessage(error)}`);
    }
    this.metrics.close();
    await this.parts.session.close();
    this.parts.directory.lock?.release();
  }

  private warn(message: string): void {
    this.parts.emit({ type: 'warning', message });
  }
}
