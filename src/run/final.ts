/** `final/`: the trained adapter or model as a folder that can be pushed to the hub as it is. */
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Policy } from '../engine/types';
import { MAX_TEXT_BYTES } from '../base/regular-file';
import { jsonText, writeDirectoryAtomic } from './atomic';
import { writeWeights } from './checkpoint';
import { readJsonFile } from './directory';
import { readRunFile } from './read-file';

/** The files of a model folder that define its tokenizer, chat template and generation settings. */
const TOKENIZER_FILES = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'chat_template.jinja',
  'generation_config.json',
];

/** In `final/`: what the weights were trained on, by which a later use of them knows the model. */
export const FINAL_IDENTITY = 'identity.json';

export interface FinalContent {
  /** null: all weights were trained. */
  adapterConfig: unknown;
  /** Type of the engine's weights. */
  dtype: string;
  /** Folder of the base model, whose tokenizer files are copied if they exist. */
  modelDirectory: string;
  /** Step of the weights, and the fingerprints of the model under them. */
  trainedOn: { step: number; identity: object };
  /** Content of README.md. */
  modelCard: string;
}

/** The base model's config.json with the type of the weights, under transformers' older and newer name. */
function modelConfig(modelDirectory: string, dtype: string): string {
  const config = readJsonFile(join(modelDirectory, 'config.json')) as Record<string, unknown>;
  const { torch_dtype: older, ...rest } = config;
  return jsonText({ ...rest, ...(older !== undefined && { torch_dtype: dtype }), dtype });
}

/**
 * Writes the adapter in PEFT's layout, or the model in Hugging Face's, with tokenizer and model card; the folder
 * appears once complete.
 */
export function saveFinal(
  path: string,
  policy: Policy,
  { adapterConfig, dtype, modelDirectory, trainedOn, modelCard }: FinalContent,
): Promise<void> {
  return writeDirectoryAtomic(path, async (directory) => {
    await writeWeights(directory, policy, adapterConfig);
    if (adapterConfig === null) {
      writeFileSync(join(directory, 'config.json'), modelConfig(modelDirectory, dtype));
    }
    for (const name of TOKENIZER_FILES) {
      const source = join(modelDirectory, name);
      if (statSync(source, { throwIfNoEntry: false })?.isFile() !== true) continue;
      writeFileSync(join(directory, name), readRunFile(source, MAX_TEXT_BYTES));
    }
    writeFileSync(join(directory, FINAL_IDENTITY), jsonText(trainedOn));
    writeFileSync(join(directory, 'README.md'), modelCard);
  });
}
