/** The files of a run in progress: metrics, tables, checkpoints, dumps and the final weights. */
import { finiteNumbers } from '../json';
import {
  PATIENCE,
  pruneCheckpoints,
  pruneDumps,
  runAdapterConfig,
  saveCheckpoint,
  saveDump,
  saveFinal,
  writeAnswers,
  writeJsonAtomic,
  writePatiently,
} from '../run';
import type { CheckpointContent } from '../run';
import { medianItem } from '../statistics';
import type { GenerationBatch } from '../grpo/batch';
import { dumpRecord } from './dump';
import type { EvalCompletion } from '../eval';
import type { EvalKind, RunSummary } from './events';
import { modelCard } from './model-card';
import type { LoopStep, Refusal } from '../grpo/step';
import type { Opened } from './opened';
import { completionsSink, metricsSink } from './own-sinks';
import { giveTo, type Sink, type SinkArguments, type SinkCall } from './sinks';
import { storedState, type RunState } from './state';

export class RunFiles {
  /** Served before the user's sinks; unlike theirs, an error of one of these ends the run. */
  private readonly own: [name: string, sink: Sink][];

  /** @param waiting ends the wait for space on a full disk */
  constructor(
    private readonly run: Opened,
    private readonly waiting: AbortSignal,
  ) {
    this.own = [
      ['metrics.jsonl', metricsSink(run.directory, (message) => this.warn(message))],
      ['the table of completions', completionsSink(run.directory)],
    ];
  }

  /** Gives to the run's own sinks, then to the user's. */
  async give<Call extends SinkCall>(call: Call, ...given: SinkArguments<Call>): Promise<void> {
    await this.giveOwn(call, given);
    await this.run.sinks.give(call, ...given);
  }

  private async giveOwn<Call extends SinkCall>(
    call: Call,
    given: SinkArguments<Call>,
    signal?: AbortSignal,
  ): Promise<void> {
    for (const [name, sink] of this.own) {
      if (sink[call] !== undefined) await this.write(name, () => giveTo(sink, call, given), signal);
    }
  }

  /** Rewinds the sinks to the step of `state`. */
  rewind({ pending, position }: RunState): Promise<void> {
    const { step } = position.state;
    // A pending line has not been given yet.
    return this.give('rewind', pending === null ? step : step - 1);
  }

  /** Writes a file of the run: checks that the directory is still the run's, and waits on a full disk. */
  write(what: string, work: () => void | Promise<void>, signal = this.waiting): Promise<void> {
    const { watchdog } = this.run;
    const attempt = () => {
      watchdog.progress();
      watchdog.note(() => `writing ${what}`);
      this.run.directory.lock?.assertHeld();
      return work();
    };
    const warn = (message: string) => this.warn(message);
    const patience = this.run.patience ?? PATIENCE;
    return watchdog.phase('checkpoint', () => writePatiently(what, attempt, patience, warn, signal));
  }

  /** The table of completions of a new batch, and the one that is printed, if they are due. */
  async completions(step: number, { groups, rewards, samples }: GenerationBatch): Promise<void> {
    const { completionsSteps, logCompletions, stepsPerGeneration, numIterations } = this.run.config;
    // The batch is that of so many steps from this one on, any of which may be due.
    const last = step + stepsPerGeneration * numIterations - 1;
    const due = (every: number) => every > 0 && Math.floor(last / every) > Math.floor((step - 1) / every);
    if (!due(completionsSteps) && !due(logCompletions)) return;
    const rows = groups
      .flatMap((group) => group.rollouts)
      .map((rollout, i) => ({ rollout, reward: rewards.rewards[i]!, advantage: samples[i]!.advantage }));
    if (due(completionsSteps)) await this.give('completions', step, rows);
    if (!due(logCompletions) || rows.length === 0) return;
    const row = medianItem(rows, ({ rollout }) => rollout.totalTokens);
    this.run.emit({ type: 'sample', step, row });
  }

  /** The answers of an evaluation, unless the run keeps no completions. */
  async answers(step: number, kind: EvalKind, completions: readonly EvalCompletion[]): Promise<void> {
    const { config, directory } = this.run;
    if (config.completionsSteps === 0) return;
    const rows = completions
      .map((completion) => ({ ...completion, finish: completion.truncated ? 'length' : 'stop' }) as const)
      .sort((a, b) => a.index - b.index);
    const path = directory.answers(step, kind);
    await this.write('the answers of the evaluation', () => writeAnswers(path, step, rows));
  }

  private content(state: RunState): CheckpointContent {
    const { config, loop, identity, accepted } = this.run;
    const pending = state.pending && finiteNumbers(state.pending).finite;
    const origin = { config, datasetSize: loop.dataset.size, identity, accepted };
    const stored = storedState({ ...state, pending }, origin, loop.engine);
    return { adapterConfig: runAdapterConfig(config, loop.policy, loop.model), ...stored };
  }

  /** Writes a dump from which the refused step after `before` can be reproduced; returns its folder. */
  async dump(
    before: RunState,
    { index, refusal, metrics }: Pick<LoopStep, 'index' | 'metrics'> & { refusal: Refusal },
  ): Promise<string> {
    const { config, directory, loop } = this.run;
    const { state } = before.position;
    const content = this.content({ ...before, position: { state, open: refusal.batch } });
    const record = dumpRecord(refusal, metrics.learning_rate!, config, state);
    const path = directory.dump(index);
    await this.write(path, async () => {
      await saveDump(directory, index, loop.policy, content, record);
      // The first of consecutive refused steps is the most telling: the later ones had the same weights.
      pruneDumps(directory, [...new Set([index - state.refused, index])]);
    });
    return path;
  }

  async checkpoint(state: RunState, signal?: AbortSignal): Promise<void> {
    const { directory, loop, emit } = this.run;
    const { step } = state.position.state;
    const content = this.content(state);
    const path = directory.checkpoint(step);
    await this.run.sinks.give('flush');
    // On disk before the checkpoint, so that none of its steps can be missing.
    await this.giveOwn('flush', [], signal);
    await this.write(path, () => saveCheckpoint(directory, step, loop.policy, content), signal);
    emit({ type: 'checkpoint', step, path });
    await this.prune(state, signal);
  }

  /**
   * Removes checkpoints beyond `keepCheckpoints`, but never the best, the newest healthy one, or those a
   * rollback needs.
   */
  prune({ best, guard, position }: RunState, signal?: AbortSignal): Promise<void> {
    const { config, directory } = this.run;
    const { step } = position.state;
    // The newest may hold the very weights that a rollback must get away from.
    const spared = config.nonFinitePolicy === 'rollback' ? directory.checkpointSteps().slice(-2) : [];
    const always = [best?.step ?? step, guard.healthy ?? step, ...spared];
    const path = directory.checkpoints();
    return this.write(path, () => pruneCheckpoints(directory, config.keepCheckpoints, always), signal);
  }

  /** The last two files of a run; until the summary is there, a resumed run writes both again. */
  async final(summary: RunSummary): Promise<void> {
    const { config, directory, loop, inputs } = this.run;
    const { trainData, evalData, modelDirectory } = inputs;
    const card = modelCard({
      config,
      summary,
      trainData,
      evalData,
      forkedAt: directory.forkedAt(),
      adapted: loop.policy.info.matrices,
    });
    const { dtype } = loop.model.info;
    const { model, tokenizer, chatTemplate } = this.run.identity;
    const content = {
      adapterConfig: runAdapterConfig(config, loop.policy, loop.model),
      dtype,
      modelDirectory,
      trainedOn: { step: summary.run.steps, identity: { model, tokenizer, chatTemplate } },
      modelCard: card,
    };
    await this.write(directory.final(), () => saveFinal(directory.final(), loop.policy, content));
    await this.write(directory.summary(), () => writeJsonAtomic(directory.summary(), summary));
  }

  close(): void {
    for (const [, sink] of this.own) void sink.close?.();
    this.run.directory.lock?.release();
  }

  private warn(message: string): void {
    this.run.emit({ type: 'warning', message });
  }
}
