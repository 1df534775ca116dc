/** Reads a tokenizer's files from a Hugging Face model directory. */
import { join } from 'node:path';

import { AcoerError, errorCode, errorMessage, whyUnreadable } from '../errors';
import { isRecord } from '../json';
import { readRegularFile } from '../regular-file';

export type Json = Record<string, unknown>;

export interface TokenizerFiles {
  tokenizer: Json;
  config: Json;
  generation: Json;
  chatTemplate: string | null;
}

/** The largest known tokenizer.json, with a vocabulary of 262,000, has 33 MB. */
const MAX_BYTES = 1 << 27;

async function readText(path: string): Promise<string | null> {
  try {
    return (await readRegularFile(path, MAX_BYTES)).toString('utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw new AcoerError('BAD_INPUT', `Cannot read ${path}: ${whyUnreadable(error)}`, { cause: error });
  }
}

async function readJson(path: string): Promise<Json | null> {
  const text = await readText(path);
  if (text === null) return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new AcoerError('BAD_INPUT', `${path} is not valid JSON: ${errorMessage(error)}`, { cause: error });
  }
  if (!isRecord(value)) throw new AcoerError('BAD_INPUT', `${path} must hold a JSON object`);
  return value;
}

/** The default template, from a string or a list of {name, template}. */
function templateOf(value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) return null;
  const named = value as ({ name?: unknown; template?: unknown } | null)[];
  const chosen = named.find((one) => one?.name === 'default') ?? named[0];
  return typeof chosen?.template === 'string' ? chosen.template : null;
}

export async function readTokenizerFiles(directory: string): Promise<TokenizerFiles> {
  const [tokenizer, config, generation, templateFile] = await Promise.all([
    readJson(join(directory, 'tokenizer.json')),
    readJson(join(directory, 'tokenizer_config.json')),
    readJson(join(directory, 'generation_config.json')),
    readText(join(directory, 'chat_template.jinja')),
  ]);
  if (tokenizer === null) {
    throw new AcoerError(
      'BAD_INPUT',
      `No tokenizer.json in ${directory}: give the directory of a Hugging Face model with a fast tokenizer`,
    );
  }
  return {
    tokenizer,
    config: config ?? {},
    generation: generation ?? {},
    chatTemplate: templateFile ?? templateOf(config?.chat_template),
  };
}
