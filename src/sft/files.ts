/** The files of a supervised run: those of every run, with its state and its card. */
import { finiteNumbers } from '../base/json';
import { pruneCheckpoints } from '../run';
import type { SftSummary } from '../life/events';
import { RunFiles } from '../life/run-files';
import { thisMaker } from '../life/maker';
import { sftCard } from './card';
import type { OpenedSft } from './opened';
import type { SftState } from './state';

export class SftFiles extends RunFiles {
  /** @param waiting ends the wait for space on a full disk */
  constructor(
    private readonly run: OpenedSft,
    waiting: AbortSignal,
  ) {
    super(run, run, [], waiting);
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
