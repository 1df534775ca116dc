/** Supervised fine-tuning at work: updates over the examples, evaluations on those held out, and the run's files. */
import { MemoryLimits } from '../grpo/memory';
import type { SftSummary } from '../life/events';
import { loadedEvent, scheduleOf } from '../life/policy';
import { otherMaker, thisMaker } from '../life/identity';
import { isDue, resumeCommand, type MadeStep, type Work } from '../life/method';
import { restorePolicy, pruneCheckpoints } from '../run';
import type { StepMetrics } from '../base/types';
import { evaluateExamples, Batches, sftStep, type StepContext, type StepFigures } from './step';
import type { OpenedSft } from './opened';
import { SFT } from './opening';
import { initialSftState, storedSft, type SftState } from './state';
import { finiteNumbers } from '../base/json';
import { RunFiles } from '../life/run-files';
import { sftCard } from './card';

export class SftFiles extends RunFiles {
  constructor(private readonly run: OpenedSft) {
    super(run, run);
  }

  async checkpoint({ pending, ...rest }: SftState, signal?: AbortSignal): Promise<void> {
    const { directory, config, identity, engine } = this.run;
    const sft = { ...rest, pending: pending && finiteNumbers(pending).finite };
    const state = { method: 'sft', config, maker: thisMaker(engine), identity, sft };
    await this.saveCheckpoint(sft.step, { state, rollouts: null }, signal);
    const best = sft.best?.step ?? sft.step;
    const prune = () => pruneCheckpoints(directory, config.keepCheckpoints, [sft.step, best]);
    await this.write(directory.checkpoints(), prune, signal);
  }

  /** The last two files of a run. */
  async final(summary: SftSummary): Promise<void> {
    const { config, inputs, policy, identity } = this.run;
    const { model, tokenizer } = identity;
    const modelCard = sftCard({ config, data: inputs.data, summary, adapted: policy.info.matrices });
    const trainedOn = { step: summary.run.steps, identity: { model, tokenizer } };
    await this.saveFinal(summary, { modelDirectory: inputs.modelDirectory, trainedOn, modelCard });
  }
}

interface SftStep extends MadeStep {
  /** What follows the step. */
  state: Omit<SftState, 'pending'>;
}

export class SftWork implements Work<SftStep, SftSummary> {
  readonly files: SftFiles;
  readonly maxSteps: number;
  private readonly context: StepContext;

  constructor(
    private readonly run: OpenedSft,
    public state: SftState,
  ) {
    const { config, policy, inputs, warn, watchdog: watch, halt } = run;
    const memory = new MemoryLimits(config, { lengthSetting: 'maxLength', warn });
    memory.restore(state.memory);
    const batches = new Batches(inputs.examples, config);
    const schedule = scheduleOf(config);
    this.context = { config, policy, memory, batches, schedule, signal: halt.step, watch };
    this.files = new SftFiles(run);
    this.maxSteps = config.maxSteps;
  }

  get step(): number {
    return this.state.step;
  }

  async begin(): Promise<boolean> {
    if (this.run.inputs.heldOut.length === 0 || this.state.base !== null) return false;
    this.state.base = await this.evaluate('baseEvaluation');
    return true;
  }

  async *steps(): AsyncGenerator<SftStep, void> {
    while (this.step < this.maxSteps) {
      const begun = performance.now();
      this.run.watchdog.atStep(this.step + 1);
      const figures = await sftStep(this.context, this.step);
      const { numTokens, loss, base, latest, best } = this.state;
      const state = {
        ...{ base, latest, best },
        step: this.step + 1,
        numTokens: numTokens + figures.tokens,
        loss: { first: loss?.first ?? figures.loss, last: figures.loss },
        memory: this.context.memory.state(),
      };
      const metrics = this.line(figures, state, (performance.now() - begun) / 1000);
      yield { index: state.step, metrics, state };
    }
  }

  private line(
    { loss, entropy, gradNorm, learningRate }: StepFigures,
    { step, numTokens }: SftStep['state'],
    seconds: number,
  ): StepMetrics {
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

  record({ state, metrics }: SftStep): Promise<void> {
    this.state = { ...state, pending: metrics };
    return Promise.resolve();
  }

  /** Adds an evaluation every `evalSteps` steps and after the last. True: it is the best so far. */
  async complete(line: StepMetrics): Promise<boolean> {
    const { state, step } = this;
    const due = isDue(this, this.run.config.evalSteps);
    if (!due || this.run.inputs.heldOut.length === 0) return false;
    if (state.latest?.step !== step) {
      state.latest = { step, ...(await this.evaluate('evaluation')) };
    }
    const { loss, entropy } = state.latest;
    Object.assign(line, { 'eval/loss': loss, 'eval/entropy': entropy });
    if (state.best !== null && state.best.loss <= loss) return false;
    state.best = { step, loss };
    return true;
  }

  private async evaluate(phase: 'baseEvaluation' | 'evaluation') {
    const { model, policy, watchdog: watch, halt, inputs, emit } = this.run;
    const context = { model, policy, memory: this.context.memory, watch, signal: halt.waiting };
    const evaluation = await watch.phase(phase, () => evaluateExamples(context, inputs.heldOut));
    emit({ type: 'held-out', step: this.step, ...evaluation });
    return evaluation;
  }

  saveIsDue(): boolean {
    return isDue(this, this.run.config.saveSteps);
  }

  save(signal?: AbortSignal): Promise<void> {
    return this.files.checkpoint(this.state, signal);
  }

  async finish(): Promise<SftSummary> {
    const { config, directory, inputs, emit } = this.run;
    const { step, numTokens, loss, base, latest, best } = this.state;
    const { length: examples } = inputs.examples;
    const { full, seed } = config;
    const run = { directory: directory.path, method: 'sft' as const, full, seed, steps: step, examples };
    const trained = latest && { loss: latest.loss, entropy: latest.entropy };
    const heldOut = base && trained && best ? { examples: inputs.heldOut.length, base, trained, best } : null;
    const summary: SftSummary = { run, loss: loss!, numTokens, ...(heldOut && { heldOut }) };
    await this.files.final(summary);
    emit({ type: 'finished', summary });
    return summary;
  }

  inWords({ run, loss, heldOut }: SftSummary): string {
    const { before, after } = heldOut
      ? { before: heldOut.base.loss, after: heldOut.trained.loss }
      : { before: loss.first, after: loss.last };
    const where = heldOut ? 'Loss on held-out examples' : 'Loss';
    return `Finished after step ${run.steps}. ${where} ${before.toFixed(3)} -> ${after.toFixed(3)}.`;
  }

  advice(code: string): string | null {
    if (code !== 'WRITE_FAILED' && code !== 'OUT_OF_MEMORY' && code !== 'NOT_FINITE') return null;
    return `to go on: ${resumeCommand(SFT, this.run.directory.path)}`;
  }
}

/** Restores the run's state into the loaded model. */
export async function startSft(run: OpenedSft): Promise<SftWork> {
  const { config, checkpoint, engine, policy, emit, warn, watchdog } = run;
  emit(loadedEvent(config.model, run));
  if (checkpoint === null) return new SftWork(run, initialSftState());
  const { sft: state, maker } = storedSft(checkpoint);
  await watchdog.phase('loading', () => restorePolicy(checkpoint, policy));
  const other = otherMaker(maker, engine);
  if (other !== null) warn(other);
  return new SftWork(run, state);
}
