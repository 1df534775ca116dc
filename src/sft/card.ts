/** README.md of a supervised run's `final/`: what was trained, on what and how. */
import { splitRevision } from '../hub';
import { joinNames, partNames } from '../data';
import { baseModel, frontMatter, published, publishedData, table, USE } from '../train/model-card';
import { packageVersion } from '../version';
import type { SftConfig } from './config';
import type { SftInputs } from './inputs';
import type { SftSummary } from './events';

export interface SftCardContent {
  config: SftConfig;
  data: SftInputs['data'];
  summary: SftSummary;
}

const shown = (value: number): string => String(Number(value.toPrecision(4)));

function training({ config, data, summary: { run, loss } }: SftCardContent): string {
  const lora = `rank ${config.loraRank}, alpha ${config.loraAlpha}, dropout ${config.loraDropout}`;
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
    ['learning rate', `${config.learningRate}, ${config.lrSchedulerType}`],
    [config.useRslora ? 'LoRA (rsLoRA)' : 'LoRA', lora],
    ['target modules', config.targetModules.join(', ')],
    ...(config.adapter === null ? [] : [['went on from the adapter', `\`${published(config.adapter)}\``]]),
    ['seed', String(config.seed)],
  ]);
}

export function sftCard(content: SftCardContent): string {
  const { config, data } = content;
  const model = published(config.model);
  return `${frontMatter({ config, trainData: data }, 'sft')}

# ${splitRevision(model).id} after supervised fine-tuning

A LoRA adapter in PEFT's format for ${baseModel(config.model)}, trained by acoer ${packageVersion()} on completions of others.

## Training

${training(content)}

To go on with GRPO, in a clone of acoer after \`npm ci\`: \`npx acoer train --adapter FOLDER\`.

${USE}`;
}
