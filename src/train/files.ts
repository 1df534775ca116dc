/** The files of a run of `train`: besides those of every run, tables of completions and answers, and dumps. */
import { updatesPerBatch } from '../base/batches';
import { finiteNumbers } from '../base/json';
import {
  pruneCheckpoints,
  pruneDumps,
  saveDump,
  writeAnswers,
  type CheckpointContent,
  type StoredPolicy,
} from '../run';
import { medianItem } from '../base/statistics';
import type { GenerationBatch } from '../grpo/batch';
import { dumpRecord } from './dump';
import type { EvalCompletion } from '../eval';
import type { EvalKind, RunSummary } from '../life/events';
import type { LoopStep, Refusal } from '../grpo/step';
import { modelCard as cardOf } from './model-card';
import type { Opened } from './opened';
import { completionsSink } from '../life/sinks';
import { RunFiles } from '../life/run-files';
import type { Sink } from '../life/sink';
import { storedState, type RunState } from './state';

export class TrainFiles extends RunFiles {
  /** @param saved what checkpoints and dumps hold of the policy */
  constructor(
    private readonly run: Opened,
    private readonly saved: StoredPolicy,
  ) {
    const { config, directory } = run;
    const { policy, model } = run.loop;
    const tables: [string, Sink] = ['the table of completions', completionsSink(directory)];
    super(run, { policy, stored: saved, model, config }, [tables]);
  }

  /** The table of completions of a new batch, and the one that is printed, if they are due. */
  async completions(step: number, { groups, rewards, samples }: GenerationBatch): Promise<void> {
    const { completionsSteps, logCompletions } = this.run.config;
    // The batch is that of so many steps from this one on, any of which may be due.
    const last = step + updatesPerBatch(this.run.config) - 1;
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

  private stored(state: RunState): Omit<CheckpointContent, 'adapterConfig'> {
    const { config, loop, identity, accepted } = this.run;
    const pending = state.pending && finiteNumbers(state.pending).finite;
    const origin = { config, datasetSize: loop.dataset.size, identity, accepted };
    return storedState({ ...state, pending }, origin, loop.engine);
  }

  /** Writes a dump from which the refused step after `before` can be reproduced; returns its folder. */
  async dump(
    before: RunState,
    { index, refusal, metrics }: Pick<LoopStep, 'index' | 'metrics'> & { refusal: Refusal },
  ): Promise<string> {
    const { config, directory } = this.run;
    const stored = this.stored({ ...before, open: refusal.batch });
    const content = { adapterConfig: this.adapterConfig(), ...stored };
    const record = dumpRecord(refusal, metrics.learning_rate!, config, before.loop);
    const path = directory.dump(index);
    await this.write(path, async () => {
      await saveDump(directory, index, this.saved, content, record);
      // The first of consecutive refused steps is the most telling: the later ones had the same weights.
      pruneDumps(directory, [...new Set([index - before.loop.refused, index])]);
    });
    return path;
  }

  async checkpoint(state: RunState, signal?: AbortSignal): Promise<void> {
    await this.saveCheckpoint(state.loop.step, this.stored(state), signal);
    await this.prune(state, signal);
  }

  /**
   * Removes checkpoints beyond `keepCheckpoints`, but never the best, the newest healthy one, or those a
   * rollback needs.
   */
  prune({ best, guard, loop }: RunState, signal?: AbortSignal): Promise<void> {
    const { config, directory } = this.run;
    const { step } = loop;
    // The newest may hold the very weights that a rollback must get away from.
    const spared = config.nonFinitePolicy === 'rollback' ? directory.checkpointSteps().slice(-2) : [];
    const always = [best?.step ?? step, guard.healthy ?? step, ...spared];
    const path = directory.checkpoints();
    return this.write(path, () => pruneCheckpoints(directory, config.keepCheckpoints, always), signal);
  }

  /** The last two files of a run. */
  async final(summary: RunSummary): Promise<void> {
    const { config, directory, loop, inputs, identity } = this.run;
    const { trainData, evalData, modelDirectory } = inputs;
    const forkedAt = directory.forkedAt();
    const adapted = loop.policy.info.matrices;
    const modelCard = cardOf({ config, summary, trainData, evalData, forkedAt, adapted });
    const { model, tokenizer, chatTemplate } = identity;
    const trainedOn = { step: summary.run.steps, identity: { model, tokenizer, chatTemplate } };
    await this.saveFinal(summary, { modelDirectory, trainedOn, modelCard });
  }
}
