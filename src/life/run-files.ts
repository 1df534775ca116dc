/** The files that every run in progress has: metrics, checkpoints and the final weights. */
import {
  PATIENCE,
  runAdapterConfig,
  saveCheckpoint,
  saveFinal,
  writeJsonAtomic,
  writePatiently,
  type CheckpointContent,
  type FinalContent,
  type LoraShape,
  type StoredPolicy,
} from '../run';
import type { Model, Policy } from '../engine/types';
import type { StepMetrics } from '../base/types';
import type { CommonEvent } from './events';
import type { Life } from './life';
import { metricsSink } from './sinks';
import { giveTo, type Sink, type SinkArguments, type SinkCall } from './sink';

/** What is trained, and what was loaded for it. */
export interface Trained {
  policy: Policy;
  /** What checkpoints hold of it. Default: the policy itself. */
  stored?: StoredPolicy;
  model: Model;
  config: LoraShape & { model: string; full: boolean };
}

export class RunFiles {
  /** Served before the user's sinks; unlike theirs, an error of one of these ends the run. */
  private readonly own: [name: string, sink: Sink][];

  /** @param more sinks of the run's own besides its metrics, each with its name in messages */
  constructor(
    private readonly life: Life<CommonEvent>,
    private readonly trained: Trained,
    more: readonly [name: string, sink: Sink][] = [],
  ) {
    this.own = [['metrics.jsonl', metricsSink(life.directory, life.warn)], ...more];
  }

  /** Gives to the run's own sinks, then to the user's. */
  async give<Call extends SinkCall>(call: Call, ...given: SinkArguments<Call>): Promise<void> {
    await this.giveOwn(call, given);
    await this.life.sinks.give(call, ...given);
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

  /** Rewinds the sinks to the newest step whose line they have. */
  rewindTo({ step, state }: { step: number; state: { pending: StepMetrics | null } }): Promise<void> {
    return this.give('rewind', state.pending === null ? step : step - 1);
  }

  /** Writes a file of the run: checks that the directory is still the run's, and waits on a full disk. */
  write(what: string, work: () => void | Promise<void>, signal = this.life.halt.waiting): Promise<void> {
    const { watchdog, directory, warn, patience = PATIENCE } = this.life;
    const attempt = () => {
      watchdog.progress();
      watchdog.note(() => `writing ${what}`);
      directory.lock?.assertHeld();
      return work();
    };
    return watchdog.phase('checkpoint', () => writePatiently(what, attempt, patience, warn, signal));
  }

  /** @param stored state.json and the tensors of a batch in progress */
  async saveCheckpoint(
    step: number,
    stored: Omit<CheckpointContent, 'adapterConfig'>,
    signal?: AbortSignal,
  ): Promise<void> {
    const { directory, sinks, emit } = this.life;
    const content = { adapterConfig: this.adapterConfig(), ...stored };
    const path = directory.checkpoint(step);
    await sinks.give('flush');
    // On disk before the checkpoint, so that none of its steps can be missing.
    await this.giveOwn('flush', [], signal);
    const { policy, stored: saved = policy } = this.trained;
    await this.write(path, () => saveCheckpoint(directory, step, saved, content), signal);
    emit({ type: 'checkpoint', step, path });
  }

  /** The last two files of a run; until the summary is there, a resumed run writes both again. */
  async saveFinal(
    summary: object,
    content: Pick<FinalContent, 'modelDirectory' | 'trainedOn' | 'modelCard'>,
  ): Promise<void> {
    const { directory } = this.life;
    const { policy, model } = this.trained;
    const whole = { ...content, adapterConfig: this.adapterConfig(), dtype: model.info.dtype };
    await this.write(directory.final(), () => saveFinal(directory.final(), policy, whole));
    await this.write(directory.summary(), () => writeJsonAtomic(directory.summary(), summary));
  }

  /** null: all weights are trained. */
  protected adapterConfig(): Record<string, unknown> | null {
    const { config, policy, model } = this.trained;
    return runAdapterConfig(config, policy, model);
  }

  close(): void {
    for (const [, sink] of this.own) void sink.close?.();
    this.life.directory.lock?.release();
  }
}
