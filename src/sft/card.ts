/** README.md of a supervised run's `final/`: what was trained, on what and how. */
import type { LoraMatrix } from '../engine/types';
import { splitRevision } from '../hub';
import { joinNames, partNames } from '../data';
import {
  frontMatter,
  howToUse,
  published,
  publishedData,
  table,
  trainedRows,
  whatIsTrained,
} from '../train/model-card';
import type { SftSummary } from '../life/events';
import { packageVersion } from '../base/version';
import type { SftConfig } from './config';
import type { SftInputs } from './inputs';

export interface SftCardContent {
  config: SftConfig;
  data: SftInputs['data'];
  summary: SftSummary;
  /** The linears that the adapter adapts; none for a run of all weights. */
  adapted: readonly LoraMatrix[];
}

const shown = (value: number): string => String(Number(value.toPrecision(4)));

function training({ config, data, summary: { run, loss, heldOut }, adapted }: SftCardContent): string {
  return table([
    ['setting', 'value'],
    ['training data', `\`${publishedData(joinNames(partNames(data.name)))}\``],
    ['examples', String(run.examples)],
    ['steps x examples', `${run.steps} x ${config.batchSize}`],
    ['longest example', config.maxLength === null ? "the model's context" : `${config.maxLength} tokens`],
    [
      'loss',
      `negative log-likelihood per completion token: ${shown(loss.first)} in the first step, ${shown(loss.last)} in the last`,
    ],
    ...(heldOut === undefined
      ? []
      : [
          [
            'held out',
            `${shown(heldOut.base.loss)} before and ${shown(heldOut.trained.loss)} after training, on ${heldOut.examples} examples`,
          ],
        ]),
    ['learning rate', `${config.learningRate}, ${config.lrSchedulerType}`],
    ...trainedRows(config, adapted),
    ...(config.adapter === null ? [] : [['continued from the adapter', `\`${published(config.adapter)}\``]]),
    ['seed', String(config.seed)],
  ]);
}

/** The option of `acoer train` that continues from the result. */
export const goOn = ({ full }: Pick<SftConfig, 'full'>, folder: string): string =>
  full ? `--set model=${folder}` : `--adapter ${folder}`;

export function sftCard(content: SftCardContent): string {
  const { config, data } = content;
  const model = published(config.model);
  return `${frontMatter(config, data, 'sft')}

# ${splitRevision(model).id} after supervised fine-tuning

${whatIsTrained(config)}, trained by acoer ${packageVersion()} on completions of others.

## Training

${training(content)}

To go on with GRPO, in a clone of acoer after \`npm ci\`: \`npx acoer train ${goOn(config, 'FOLDER')}\`.

${howToUse(config)}`;
}
