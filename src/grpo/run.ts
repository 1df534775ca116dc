/** A run in progress: drives the loop and writes the run directory. */
import type { Config } from '../config';
import { AcoerError, errorCode, errorMessage } from '../errors';
import {
  adapterConfig,
  completeRollbacks,
  MetricsFile,
  recordRollback,
  saveAdapter,
  saveCheckpoint,
  writeCompletions,
  writeJsonAtomic,
} from '../run';
import type { RunDirectory } from '../run';
import type { LoopState } from './context';
import { dumpBatch } from './dump';
import { evaluatePolicy, evaluationMetrics } from './evaluation';
import type { EvalPhase, Evaluation, RunSummary, TrainEvent, TrainStep } from './events';
import { trainSteps, type LoopStep } from './loop';
import { guardOf, planRollback, type CollapseGuard, type GuardState } from './guard';
import type { Session } from './session';
import { restoreRun } from './start';

/** What state.json holds: the loop's state and the evaluations made so far. */
export interface RunState {
  loop: LoopState;
  base: Evaluation | null;
  /** Of step `step`; the last one is also the run's result. */
  latest: { step: number; evaluation: Evaluation } | null;
  guard: GuardState;
}

export interface RunParts {
  directory: RunDirectory;
  config: Config;
  session: Session;
  start: RunState;
  /** The state is not in a checkpoint of this directory yet. */
  unsaved?: boolean;
  emit: (event: TrainEvent) => void;
  signal?: AbortSignal;
}

/** The steps of a run as they are made, each written before it is handed out. Returns the run's summary. */
export class RunDriver {
  private state: RunState;
  private metrics: MetricsFile;
  private readonly guard: CollapseGuard;
  /** The reason of a collapse that is not acted on yet. */
  private collapse: string | null = null;
  /** Fires on `stop` and on the caller's signal: ends evaluations at once. */
  private readonly halt = new AbortController();
  private stopping = false;
  /** The newest state that can be resumed from and is not saved yet. */
  private unsaved: LoopState | null = null;

  constructor(private readonly parts: RunParts) {
    this.state = parts.start;
    const { config, signal } = parts;
    this.guard = guardOf(config);
    this.metrics = this.openMetrics();
    if (parts.unsaved === true) this.unsaved = this.state.loop;
    signal?.addEventListener('abort', this.onAbort);
    if (signal?.aborted) this.onAbort();
  }

  /** Goes on behind the last step of the state. */
  private openMetrics(): MetricsFile {
    const { directory } = this.parts;
    return new MetricsFile(directory.metrics(), this.state.loop.step, (message) => this.warn(message));
  }

  private readonly onAbort = () => this.halt.abort();

  /** Ends the run after the step in progress, with a checkpoint (where a generated batch ends). */
  stop(): void {
    this.stopping = true;
    this.halt.abort();
  }

  async *drive(): AsyncGenerator<TrainStep, RunSummary> {
    try {
      this.state.base ??= await this.evaluate('base');
      await this.saveStart();
      while (yield* this.steps());
      return await this.finish();
    } catch (error) {
      throw this.interruption(error);
    } finally {
      await this.close();
    }
  }

  /** A fork stands on its own from its first step; and there is always a checkpoint to roll back to. */
  private async saveStart(): Promise<void> {
    const { config, directory } = this.parts;
    const first = config.onCollapse === 'rollback' && directory.checkpointSteps().length === 0;
    if (first) this.unsaved = this.state.loop;
    await this.save();
  }

  /** The steps to the end; true when a rollback broke them off. */
  private async *steps(): AsyncGenerator<TrainStep, boolean> {
    const { session, emit } = this.parts;
    const { loop } = session;
    loop.onDecoded = (done, total) =>
      emit({ type: 'decode-progress', step: this.state.loop.step + 1, done, total });
    for await (const step of trainSteps(loop, this.state.loop)) {
      await this.record(step);
      yield { index: step.index, metrics: step.metrics };
      if (step.state === null) continue;
      if (this.collapse !== null) {
        await this.rollBack(this.collapse);
        return true;
      }
      if (this.stopping) this.throwStopped();
    }
    return false;
  }

  /** Goes back to the last healthy checkpoint, with less pressure and other seeds; or ends the run. */
  private async rollBack(reason: string): Promise<void> {
    const { config, directory, session, emit } = this.parts;
    const rollback = planRollback(config, this.state, directory.checkpointSteps(), reason);
    this.collapse = null;
    this.metrics.sync();
    recordRollback(directory, rollback);
    completeRollbacks(directory);
    const restored = await restoreRun(directory, rollback.to, session.loop);
    this.state = restored;
    this.unsaved = null;
    this.metrics.close();
    this.metrics = this.openMetrics();
    emit({ type: 'rollback', rollback });
  }

  private throwStopped(): never {
    throw new AcoerError('INTERRUPTED', `Stopped after step ${this.state.loop.step}.`);
  }

  private async record(step: LoopStep): Promise<void> {
    const { config, session, emit } = this.parts;
    // Until the batch is used up there is no state to resume from.
    this.unsaved = step.state;
    if (step.state !== null) this.state.loop = step.state;
    this.watch(step);
    const evaluateNow = config.evalSteps > 0 && step.index % config.evalSteps === 0;
    if (evaluateNow && session.evalData !== null) {
      const evaluation = await evaluatePolicy(
        this.evaluationContext(),
        session.loop.policy,
        'step',
        this.parts.signal,
      );
      this.state.latest = { step: step.index, evaluation };
      Object.assign(step.metrics, evaluationMetrics(evaluation));
    }
    this.metrics.append(step.metrics);
    if (step.generatedNow) await this.writeTable(step);
    emit({ type: 'step', index: step.index, metrics: step.metrics });
    if (!step.update.applied) await this.refused(step);
    if (this.saveIsDue(step)) await this.save();
  }

  /** Shows the batch to the monitor, once, and puts its numbers into the metrics. */
  private watch(step: LoopStep): void {
    const { onCollapse } = this.parts.config;
    if (step.generatedNow) {
      const { state, change } = this.guard.observe(this.state.guard.monitor, step.metrics);
      this.state.guard = { ...this.state.guard, monitor: state };
      if (change !== null) this.parts.emit({ type: 'health', change });
      if (change?.to === 'collapsed' && onCollapse !== 'warn') this.collapse = change.reason;
    }
    Object.assign(step.metrics, this.guard.metrics(this.state.guard.monitor, step.batch.state.eased));
  }

  private async writeTable({ index, batch }: LoopStep): Promise<void> {
    const every = this.parts.config.completionsSteps;
    if (every === 0 || index % every !== 0) return;
    await writeCompletions(this.parts.directory.completions(index), index, batch.samples);
  }

  private async refused(step: LoopStep): Promise<void> {
    const path = this.parts.directory.nonFinite(step.index);
    dumpBatch(path, step);
    const message = `Step ${step.index}: loss or gradient is not finite, so nothing was changed; the batch is in ${path}.`;
    if (this.parts.config.nonFinitePolicy === 'stop') throw new AcoerError('NOT_FINITE', message);
    this.warn(message);
  }

  /** Due when a multiple of saveSteps was passed since the last state that could be saved. */
  private saveIsDue(step: LoopStep): boolean {
    const { saveSteps, maxSteps, stepsPerGeneration, numIterations } = this.parts.config;
    if (step.state === null) return false;
    if (step.index === maxSteps) return true;
    const before = step.index - stepsPerGeneration * numIterations;
    return saveSteps > 0 && Math.floor(step.index / saveSteps) > Math.floor(before / saveSteps);
  }

  private async save(): Promise<void> {
    const { config, directory, session, emit } = this.parts;
    if (this.unsaved === null) return;
    const { step } = this.unsaved;
    this.metrics.sync();
    if (this.state.guard.monitor.health === 'healthy')
      this.state.guard = { ...this.state.guard, healthy: step };
    const content = {
      adapterConfig: adapterConfig(config, config.model),
      state: { ...this.state, loop: this.unsaved },
    };
    const { healthy } = this.state.guard;
    await saveCheckpoint(directory, step, session.loop.policy, content, config.saveTotalLimit, healthy);
    this.unsaved = null;
    emit({ type: 'checkpoint', step, path: directory.checkpoint(step) });
  }

  private async finish(): Promise<RunSummary> {
    const { config, directory, session } = this.parts;
    const { latest } = this.state;
    const trained = latest?.step === config.maxSteps ? latest.evaluation : await this.evaluate('trained');
    await saveAdapter(directory.final(), session.loop.policy, adapterConfig(config, config.model));
    const reward = session.loop.rewards.map((entry) => entry.reward.name).join('+');
    const { rollbacks } = this.state.loop.eased;
    const run = { directory: directory.path, reward, seed: config.seed, steps: config.maxSteps, rollbacks };
    const summary: RunSummary = { base: this.state.base!, trained, run };
    writeJsonAtomic(directory.summary(), summary);
    return summary;
  }

  private evaluate(phase: EvalPhase): Promise<Evaluation> {
    const policy = phase === 'base' ? null : this.parts.session.loop.policy;
    return evaluatePolicy(this.evaluationContext(), policy, phase, this.halt.signal);
  }

  private evaluationContext() {
    const { config, session, emit } = this.parts;
    const { model, tokenizer } = session.loop;
    return { config, model, tokenizer, dataset: session.evalData, emit };
  }

  /** An abort shows up as whatever the aborted call threw; for the caller it is one thing: INTERRUPTED. */
  private interruption(error: unknown): unknown {
    const wanted = this.stopping || this.halt.signal.aborted;
    const cancelled = errorCode(error) === 'CANCELLED' || (error as Error | undefined)?.name === 'AbortError';
    const asked = this.parts.signal?.aborted === true && error === this.parts.signal.reason;
    if (errorCode(error) !== 'INTERRUPTED' && !(wanted && (cancelled || asked))) return error;
    const message = `Interrupted after step ${this.state.loop.step}; go on with: acoer train --resume ${this.parts.directory.path}`;
    return new AcoerError('INTERRUPTED', message, { cause: error });
  }

  /** However the run ended: keeps what can be resumed, frees everything. */
  async close(): Promise<void> {
    this.parts.signal?.removeEventListener('abort', this.onAbort);
    try {
      await this.save();
    } catch (error) {
      this.warn(`The last checkpoint could not be written: ${errorMessage(error)}`);
    }
    this.metrics.close();
    await this.parts.session.close();
  }

  private warn(message: string): void {
    this.parts.emit({ type: 'warning', message });
  }
}
