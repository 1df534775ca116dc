/** The files of a run in progress: metrics, tables, checkpoints, each written in the directory that is still this run's. */
import type { Config } from '../config';
import { finiteNumbers } from '../json';
import { TINY_MODEL } from '../models';
import {
  adapterConfig,
  MetricsFile,
  PATIENCE,
  pruneCheckpoints,
  pruneDumps,
  saveCheckpoint,
  saveDump,
  saveFinal,
  writeCompletions,
  writeJsonAtomic,
  writePatiently,
} from '../run';
import type { CheckpointContent, Patience, RunDirectory } from '../run';
import type { StepMetrics } from '../types';
import type { GenerationBatch } from '../grpo/batch';
import { dumpRecord } from './dump';
import type { RunSummary, TrainEvent } from './events';
import type { LoopStep } from '../grpo/loop';
import { modelCard } from './model-card';
import type { Refusal } from '../grpo/refused';
import type { Session } from './session';
import type { Sinks } from './sinks';
import { storedState, type RunState } from './state';
import type { Watchdog } from './watchdog';

export interface RunFilesParts {
  directory: RunDirectory;
  config: Config;
  session: Session;
  emit: (event: TrainEvent) => void;
  watchdog: Watchdog;
  /** With a full disk. */
  patience?: Patience;
  sinks: Sinks;
}

export class RunFiles {
  private metrics: MetricsFile | null = null;

  /** @param waiting ends the wait for space on a full disk */
  constructor(
    private readonly parts: RunFilesParts,
    private readonly waiting: AbortSignal,
  ) {}

  /** Goes on behind the last line that belongs to the state. */
  openMetrics({ pending, position }: RunState): void {
    const { step } = position.state;
    // A line that is still to be completed is written again.
    const written = pending === null ? step : step - 1;
    this.metrics?.close();
    this.metrics = new MetricsFile(this.parts.directory.metrics(), written, (message) => this.warn(message));
  }

  /** Every file of the run goes through here: the directory must still be this run's, and have space. */
  write(what: string, work: () => void | Promise<void>, signal = this.waiting): Promise<void> {
    const { watchdog } = this.parts;
    const attempt = () => {
      watchdog.progress();
      watchdog.note(() => `writing ${what}`);
      this.parts.directory.lock?.assertHeld();
      return work();
    };
    const warn = (message: string) => this.warn(message);
    const patience = this.parts.patience ?? PATIENCE;
    return watchdog.phase('checkpoint', () => writePatiently(what, attempt, patience, warn, signal));
  }

  /** The line is in metrics.jsonl before anyone else gets it. */
  async append(metrics: StepMetrics): Promise<void> {
    await this.write('metrics.jsonl', () => this.metrics!.append(metrics));
    await this.parts.sinks.give('step', metrics);
  }

  /** The table of completions, when one is due. */
  async table(step: number, { groups, rewards, samples }: GenerationBatch): Promise<void> {
    const { config, directory } = this.parts;
    if (config.completionsSteps === 0 || step % config.completionsSteps !== 0) return;
    const path = directory.completions(step);
    const rows = groups
      .flatMap((group) => group.rollouts)
      .map((rollout, i) => ({ rollout, reward: rewards.rewards[i]!, advantage: samples[i]!.advantage }));
    await this.write(path, () => writeCompletions(path, step, rows));
    await this.parts.sinks.give('completions', step, rows);
  }

  /** PEFT would look for the embedded model's name on the hub. */
  private adapterConfig(): unknown {
    const { config } = this.parts;
    return adapterConfig(config, config.model === 'tiny' ? TINY_MODEL : config.model);
  }

  private content(state: RunState): CheckpointContent {
    const { config, session } = this.parts;
    const { dataset, engine } = session.loop;
    const pending = state.pending && finiteNumbers(state.pending).finite;
    const stored = storedState({ ...state, pending }, config, dataset.size, engine);
    return { adapterConfig: this.adapterConfig(), ...stored };
  }

  /** Writes what reproduces a step refused behind `before`; returns its folder. */
  async dump(
    before: RunState,
    { index, refusal, metrics }: LoopStep & { refusal: Refusal },
  ): Promise<string> {
    const { config, directory, session } = this.parts;
    const { state } = before.position;
    const content = this.content({ ...before, position: { state, open: refusal.batch } });
    const record = dumpRecord(refusal, metrics.learning_rate!, config, state);
    const path = directory.dump(index);
    await this.write(path, async () => {
      await saveDump(directory, index, session.loop.policy, content, record);
      // Of steps refused on end the first says most: the others met the same weights.
      pruneDumps(directory, [...new Set([index - state.refused, index])]);
    });
    return path;
  }

  async checkpoint(state: RunState, signal?: AbortSignal): Promise<void> {
    const { directory, session, emit } = this.parts;
    const { step } = state.position.state;
    const content = this.content(state);
    const path = directory.checkpoint(step);
    await this.parts.sinks.give('flush');
    const save = async () => {
      this.metrics?.sync();
      await saveCheckpoint(directory, step, session.loop.policy, content);
    };
    await this.write(path, save, signal);
    emit({ type: 'checkpoint', step, path });
    await this.prune(state, signal);
  }

  /** Removes checkpoints beyond `keepCheckpoints`, but never the best one, the newest healthy one, nor what a rollback needs. */
  prune({ best, guard, position }: RunState, signal?: AbortSignal): Promise<void> {
    const { config, directory } = this.parts;
    const { step } = position.state;
    // The newest may hold the very weights a rollback is to get away from.
    const spared = config.nonFinitePolicy === 'rollback' ? directory.checkpointSteps().slice(-2) : [];
    const always = [best?.step ?? step, guard.healthy ?? step, ...spared];
    const path = directory.checkpoints();
    return this.write(path, () => pruneCheckpoints(directory, config.keepCheckpoints, always), signal);
  }

  /** The last two files of a run; until the summary is there, a resumed run writes both again. */
  async final(summary: RunSummary): Promise<void> {
    const { config, directory, session } = this.parts;
    const { loop, evalData, modelDirectory } = session;
    const card = modelCard({
      config,
      summary,
      trainData: loop.dataset,
      evalData,
      forkedAt: directory.forkedAt(),
    });
    const content = { adapterConfig: this.adapterConfig(), modelDirectory, modelCard: card };
    await this.write(directory.final(), () => saveFinal(directory.final(), loop.policy, content));
    await this.write(directory.summary(), () => writeJsonAtomic(directory.summary(), summary));
  }

  close(): void {
    this.metrics?.close();
    this.parts.directory.lock?.release();
  }

  private warn(message: string): void {
    this.parts.emit({ type: 'warning', message });
  }
}
