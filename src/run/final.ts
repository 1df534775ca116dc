/** `final/`: the trained adapter as a folder that can be pushed to a hub as it is. */
import { copyFileSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Policy } from '../engine/types';
import { writeDirectoryAtomic } from './atomic';
import { writeAdapter } from './checkpoint';

/** Of a model's folder: what its tokenizer, chat template and generation settings are made of. */
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

export interface FinalContent {
  adapterConfig: unknown;
  /** The base model's; those of its tokenizer files that are there are copied. */
  modelDirectory: string;
  /** README.md. */
  modelCard: string;
}

/** Writes the adapter as PEFT lays it out, with tokenizer and model card; the folder appears when it is whole. */
export function saveFinal(
  path: string,
  policy: Policy,
  { adapterConfig, modelDirectory, modelCard }: FinalContent,
): Promise<void> {
  return writeDirectoryAtomic(path, async (directory) => {
    await writeAdapter(directory, policy, adapterConfig);
    for (const name of TOKENIZER_FILES) {
      const source = join(modelDirectory, name);
      if (existsSync(source)) copyFileSync(source, join(directory, name));
    }
    writeFileSync(join(directory, 'README.md'), modelCard);
  });
}
