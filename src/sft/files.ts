/** The files of a supervised run in progress; the one place that writes its weights. */
import {
  MetricsFile,
  PATIENCE,
  pruneCheckpoints,
  runAdapterConfig,
  saveCheckpoint,
  saveFinal,
  writeJsonAtomic,
  writePatiently,
  type CheckpointContent,
} from '../run';
import { thisMaker } from '../train/state';
import type { StepMetrics } from '../types';
import { sftCard } from './card';
import type { SftSummary } from './events';
import type { OpenedSft } from './opened';
import type { SftState } from './state';

export class SftFiles {
  private constructor(
    private readonly run: OpenedSft,
    private readonly metrics: MetricsFile,
    /** Ends the wait for space on a full disk. */
    private readonly waiting: AbortSignal,
  ) {}

  /** Opens the metrics to go on after `step`; later lines belong to steps that will be made again. */
  static async open(run: OpenedSft, step: number, waiting: AbortSignal): Promise<SftFiles> {
    const { directory, warn } = run;
    const metrics = await MetricsFile.open(directory.metrics(), step, warn, directory.savedMetrics);
    return new SftFiles(run, metrics, waiting);
  }

  step(line: StepMetrics): Promise<void> {
    return this.write('metrics.jsonl', () => this.metrics.append(line));
  }

  async checkpoint(state: SftState, signal?: AbortSignal): Promise<void> {
    const { directory, config, policy, emit } = this.run;
    const path = directory.checkpoint(state.step);
    // On disk before the checkpoint, so that none of its steps can be missing.
    await this.write('metrics.jsonl', () => this.metrics.sync(), signal);
    await this.write(path, () => saveCheckpoint(directory, state.step, policy, this.content(state)), signal);
    emit({ type: 'checkpoint', step: state.step, path });
    const prune = () => pruneCheckpoints(directory, config.keepCheckpoints, [state.step]);
    await this.write(directory.checkpoints(), prune, signal);
  }

  /** The last two files of a run; until the summary is there, a resumed run writes both again. */
  async final(summary: SftSummary): Promise<void> {
    const { config, directory, inputs, policy, model: loaded, identity } = this.run;
    const { model, tokenizer } = identity;
    const card = sftCard({ config, data: inputs.data, summary, adapted: policy.info.matrices });
    const content = {
      adapterConfig: runAdapterConfig(config, policy, loaded),
      dtype: loaded.info.dtype,
      modelDirectory: inputs.modelDirectory,
      trainedOn: { step: summary.run.steps, identity: { model, tokenizer } },
      modelCard: card,
    };
    await this.write(directory.final(), () => saveFinal(directory.final(), policy, content));
    await this.write(directory.summary(), () => writeJsonAtomic(directory.summary(), summary));
  }

  close(): void {
    this.metrics.close();
  }

  private content(sft: SftState): CheckpointContent {
    const { config, identity, engine, policy, model } = this.run;
    const state = { method: 'sft', config, maker: thisMaker(engine), identity, sft };
    return { adapterConfig: runAdapterConfig(config, policy, model), state, rollouts: null };
  }

  /** Checks that the directory is still the run's, and waits on a full disk. */
  private write(what: string, work: () => void | Promise<void>, signal = this.waiting): Promise<void> {
    const { directory, warn } = this.run;
    const attempt = () => {
      directory.lock?.assertHeld();
      return work();
    };
    return writePatiently(what, attempt, PATIENCE, warn, signal);
  }
}
