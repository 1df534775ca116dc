/**
 * A model with random weights that reads and writes text: the embedded tokenizer with a small random Qwen3.
 */
import { copyFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { TINY_MODEL } from '../../src/models';
import { randomModel } from './random-model';
import type { RandomModelOptions } from './random-model';

/** Small and undecided enough that every token has a chance, so completions differ and do end. */
export function textModel(options: RandomModelOptions = {}): string {
  const directory = randomModel({ vocabSize: 64, std: 0.05, ...options });
  for (const name of readdirSync(TINY_MODEL)) {
    if (!/\.safetensors$|^config\.json$/.test(name))
      copyFileSync(join(TINY_MODEL, name), join(directory, name));
  }
  return directory;
}
