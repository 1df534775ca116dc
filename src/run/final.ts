/** `final/`: the trained adapter as a folder that can be pushed to the hub as it is. */
import { copyFileSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Policy } from '../engine/types';
import { writeDirectoryAtomic } from './atomic';
import { writeAdapter } from './checkpoint';

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

export interface FinalContent {
  adapterConfig: unknown;
  /** Folder of the base model, whose tokenizer files are copied if they exist. */
  modelDirectory: string;
  /** Content of README.md. */
  modelCard: string;
}

/** Writes the adapter in PEFT's layout with tokenizer and model card; the folder appears once complete. */
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
