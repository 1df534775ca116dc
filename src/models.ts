/** From the name of a model to the folder that holds it. */
import { existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { AcoerError } from './errors';

/** The folder of the embedded model. */
export const TINY_MODEL = join(__dirname, '..', 'assets', 'tiny');

/**
 * `tiny` is the embedded model; anything else is a folder in Hugging Face's layout.
 * Throws BAD_INPUT when it is not.
 */
export function resolveModel(name: string): string {
  if (name === 'tiny') return TINY_MODEL;
  const directory = resolve(name);
  if (existsSync(join(directory, 'config.json'))) return directory;
  throw new AcoerError('BAD_INPUT', `model ${name}: ${whatIsWrong(name, directory)}`);
}

function whatIsWrong(name: string, directory: string): string {
  if (existsSync(directory)) {
    return statSync(directory).isDirectory()
      ? 'this folder has no config.json; name a folder in Hugging Face layout.'
      : 'this is a file; name the folder that holds config.json and the weights.';
  }
  return /^[\w.-]+\/[\w.-]+$/.test(name)
    ? 'no such folder. Names on the Hugging Face hub are not fetched yet: download the model and name its folder.'
    : 'no such folder; name a folder with config.json and model.safetensors, or the word tiny.';
}
