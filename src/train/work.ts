/** GRPO at work: steps of the loop, evaluations, the collapse guard, and what follows from a step. */
import { isEngineSampler } from '../config';
import { AcoerError, errorCode, errorMessage } from '../base/errors';
import { percent } from '../base/text';
import type { LoopStep } from '../grpo/step';
import { evaluationMetrics, type EvalPhase, type Evaluation, type RunSummary } from '../life/events';
import { isDue, type Next, type Work } from '../life/method';
import { loadedEvent } from '../life/policy';
import { otherMaker } from '../life/identity';
import type { Engine } from '../engine/types';
import {
  completeRollbacks,
  findCheckpoint,
  readSoundMetrics,
  recordRollback,
  type StoredCheckpoint,
} from '../run';
import { afterStep } from './after-step';
import { betterOf, evaluatePolicy, evaluationContext, type EvaluationContext } from './evaluation';
import { TrainFiles } from './files';
import type { Lead } from './lead';
import { guardOf, type CollapseGuard } from './guard';
import { Mismatch } from './mismatch';
import { NoSignal } from './no-signal';
import type { Opened } from './opened';
import { forkCommand } from './resume';
import { restoreRun, startState, lacksIdentity, startsMonitorOver, storedPart, type RunState } from './state';
import { runVerdict } from './verdict';

export class GrpoWork implements Work<LoopStep, RunSummary> {
  readonly files: TrainFiles;
  readonly maxSteps: number;
  readonly unsaved: boolean;
  readonly needsStart: boolean;
  private readonly guard: CollapseGuard;
  private readonly noSignal: NoSignal;
  /** null: the engine samples. */
  private readonly mismatch: Mismatch | null;

  constructor(
    private readonly run: Opened,
    public state: RunState,
    private readonly lead: Lead,
  ) {
    const { config } = run;
    this.maxSteps = config.maxSteps;
    // A fork's state is in a checkpoint of another directory.
    this.unsaved = run.fork !== undefined;
    // A rollback needs a checkpoint.
    this.needsStart = config.onCollapse === 'rollback' || config.nonFinitePolicy === 'rollback';
    this.guard = guardOf(config);
    this.noSignal = new NoSignal(config);
    this.mismatch = isEngineSampler(config) ? null : new Mismatch();
    this.files = new TrainFiles(run, lead.stored);
  }

  get step(): number {
    return this.state.loop.step;
  }

  async begin(): Promise<boolean> {
    if (this.state.base !== null) return false;
    this.state.base = await this.evaluate('base');
    return this.step === 0 && this.run.inputs.evalData !== null;
  }

  steps(): AsyncGenerator<LoopStep, void> {
    const { halt, emit } = this.run;
    return this.lead.steps(this.state, {
      signal: halt.step,
      onDecoded: (progress) => emit({ type: 'decode-progress', step: this.step + 1, ...progress }),
    });
  }

  /** Writes the dump of a step that was refused, and decides. */
  async refused({ index, refusal, metrics, position }: LoopStep): Promise<Next> {
    const dump = await this.files.dump(this.state, { index, refusal: refusal!, metrics });
    const inARow = position.loop.refused;
    return this.next({ index, refusal: refusal!, inARow, dump });
  }

  after(): Next {
    const next = this.next(null);
    const mismatched = this.mismatch?.ending ?? null;
    if (next.do === 'go on' && mismatched !== null) return { do: 'end', error: mismatched };
    if (next.do !== 'end') return next;
    // A run that a collapse has ended can be resumed: the collapse is acted on once.
    this.state.guard = { ...this.state.guard, collapse: null };
    return { ...next, changed: true };
  }

  private next(refused: Parameters<typeof afterStep>[3]): Next {
    const { config, directory } = this.run;
    return afterStep(config, this.state, directory.checkpointSteps(), refused);
  }

  async rollBack({ rollback, code }: Next & { do: 'roll back' }): Promise<void> {
    const { directory, emit, warn, loop } = this.run;
    await this.files.write('rollbacks.json', () => recordRollback(directory, rollback));
    await this.files.write('rollbacks.json', () => completeRollbacks(directory));
    const checkpoint = await findCheckpoint(directory, warn);
    if (checkpoint === null) throw new AcoerError(code, `${rollback.reason} No checkpoint is whole.`);
    this.state = await restoreRun(directory, checkpoint, loop);
    await this.lead.share(checkpoint);
    await this.files.rewindTo(this);
    emit({ type: 'rollback', rollback });
  }

  /** The table of a step is written first, because it cannot be made again. */
  async record(step: LoopStep): Promise<void> {
    if (step.generated !== null) {
      await this.files.completions(step.index, step.generated);
      const unhelpful = this.noSignal.observe(step.generated);
      if (unhelpful !== null) this.run.warn(unhelpful);
    }
    const mismatched = this.mismatch?.observe(step.metrics) ?? null;
    if (mismatched !== null) this.run.warn(mismatched);
    Object.assign(this.state, step.position);
    this.state.pending = step.metrics;
  }

  async complete(line: LoopStep['metrics']): Promise<boolean> {
    const improved = await this.evaluateStep(line);
    this.watch(line);
    return improved;
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
    this.run.warn(`Step ${this.step} is not evaluated: ${errorMessage(error)}`);
    return null;
  }

  saveIsDue(): boolean {
    // After a refused step the weights are not new and may be at fault: older checkpoints are worth more.
    if (this.state.loop.refused > 0 && this.step < this.maxSteps) return false;
    return isDue(this, this.run.config.saveSteps);
  }

  async save(signal?: AbortSignal): Promise<void> {
    const { guard, loop } = this.state;
    if (guard.monitor.health === 'healthy' && loop.refused === 0) {
      this.state.guard = { ...guard, healthy: loop.step };
    }
    await this.files.checkpoint(this.state, signal);
    // At its end a run may be without the others.
    if (signal === undefined) await this.lead.compare(loop.step);
  }

  async finish(): Promise<RunSummary> {
    const { config, directory, inputs, accepted } = this.run;
    const { latest, base, loop } = this.state;
    const step = config.maxSteps;
    const { refused } = loop;
    if (refused > 0)
      this.run.warn(`The last ${refused} steps were refused: the result is that of step ${step - refused}.`);
    const trained = latest?.step === step ? latest.evaluation : await this.evaluate('trained');
    const best = betterOf(this.state.best, { step, evaluation: trained });
    // The process may have been killed after the last checkpoint and before the old ones were removed.
    await this.files.prune(this.state);
    const reward = inputs.rewards.map((entry) => entry.reward.name).join('+');
    const { rollbacks } = loop.eased;
    const run = { directory: directory.path, reward, seed: config.seed, steps: step, best, rollbacks };
    const changes = accepted.length > 0 ? { accepted } : {};
    const summary: RunSummary = { base: base!, trained, run: { ...run, ...changes } };
    await this.files.final(summary);
    this.lead.finished(summary);
    return summary;
  }

  left(error: unknown): Promise<void> {
    return this.lead.end(error);
  }

  private async evaluate(phase: EvalPhase): Promise<Evaluation> {
    const { loop, inputs, emit, halt } = this.run;
    const save: EvaluationContext['save'] = (kind, rows) => this.files.answers(this.step, kind, rows);
    const context = evaluationContext(loop, inputs, { emit, save });
    if (inputs.evalData !== null) await this.lead.evaluate(phase);
    try {
      return await evaluatePolicy(context, phase, halt.waiting);
    } catch (error) {
      // Another rank may have been asked to stop, and this one has not heard of it yet.
      if (errorCode(error) === 'CANCELLED') halt.stop();
      throw error;
    }
  }

  async inWords(summary: RunSummary): Promise<string> {
    const begin = `Finished after step ${summary.run.steps}.`;
    const verdict = runVerdict(summary, await readSoundMetrics(this.run.directory.metrics()));
    if (verdict === null) return begin;
    const { sentence, thinking, sampled, greedy } = verdict;
    const change = sampled ?? greedy;
    const accuracy = change && `, accuracy ${percent(change.before)} -> ${percent(change.after)}`;
    return `${begin} ${sentence} Thinking ${thinking.before.toFixed(1)} -> ${thinking.after.toFixed(1)} tokens${accuracy ?? ''}.`;
  }

  advice(code: string): string | null {
    const { path } = this.run.directory;
    const resume = `acoer train --resume ${path}`;
    if (code === 'WRITE_FAILED') return `once the disk can be written: ${resume}`;
    if (code === 'SAMPLER_LOST') return `once a server can be reached: ${resume}`;
    if (code !== 'OUT_OF_MEMORY') return null;
    return `with more memory: ${resume}; under other settings: ${forkCommand(path, this.step)} --set ...`;
  }
}

/** Restores the run's state into the loaded model. */
export async function startWork(run: Opened, lead: Lead): Promise<GrpoWork> {
  const { config, checkpoint, emit, warn, watchdog, plan, engine } = run;
  if (plan !== null) emit({ type: 'plan', plan });
  emit(loadedEvent(config.model, run));
  const state = await watchdog.phase('loading', async () => {
    const restored = await startState(run, run.loop);
    await lead.share(checkpoint);
    await lead.open(run.halt.waiting);
    return restored;
  });
  if (checkpoint !== null) noteCheckpoint(checkpoint, engine, warn);
  return new GrpoWork(run, state, lead);
}

/** What may make a difference to the steps before this checkpoint, in a sentence each. */
function noteCheckpoint(checkpoint: StoredCheckpoint, engine: Engine, warn: (message: string) => void): void {
  const other = otherMaker(storedPart(checkpoint).maker, engine);
  if (other !== null) warn(other);
  if (lacksIdentity(checkpoint)) {
    warn(
      'The checkpoint comes from a version that recorded no fingerprints: whether model, tokenizer, rewards and evaluation data are still the same is not checked. From the next checkpoint on it is.',
    );
  }
  if (startsMonitorOver(checkpoint)) {
    warn(
      "The checkpoint's collapse monitor comes from an earlier version: the monitor starts over from here.",
    );
  }
}
