/** Reads a tokenizer's files from a Hugging Face model directory. */
import { join } from 'node:path';

import { badInput, errorCode, errorMessage, unreadable } from '../base/errors';
import { isRecord } from '../base/json';
import { readRegularFile } from '../base/regular-file';
import { sha256 } from '../base/sha256';

export type Json = Record<string, unknown>;

export interface TokenizerFiles {
  tokenizer: Json;
  config: Json;
  generation: Json;
  chatTemplate: string | null;
  fingerprints: TokenizerFingerprints;
}

/** SHA-256 in hex. */
export interface TokenizerFingerprints {
  /** By file name; tokenizer_config.json counts without its chat template. */
  readonly files: Readonly<Record<string, string>>;
  /** The chat template in use, in whichever file it is; null if there is none. */
  readonly chatTemplate: string | null;
}

/** The largest known tokenizer.json, with a vocabulary of 262,000, has 33 MB. */
const MAX_BYTES = 1 << 27;

async function readText(path: string): Promise<string | null> {
  try {
    return (await readRegularFile(path, MAX_BYTES)).toString('utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw unreadable(path, error);
  }
}

interface JsonFile {
  text: string | null;
  json: Json | null;
}

async function readJson(path: string): Promise<JsonFile> {
  const text = await readText(path);
  if (text === null) return { text, json: null };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw badInput(`${path} is not valid JSON: ${errorMessage(error)}`, error);
  }
  if (!isRecord(value)) throw badInput(`${path} must hold a JSON object`);
  return { text, json: value };
}

/** The default template, from a string or a list of {name, template}. */
function templateOf(value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) return null;
  const named = value as ({ name?: unknown; template?: unknown } | null)[];
  const chosen = named.find((one) => one?.name === 'default') ?? named[0];
  return typeof chosen?.template === 'string' ? chosen.template : null;
}

/** JSON.parse takes values that are nested too deep for JSON.stringify. */
function compact(path: string, value: Json): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw badInput(`${path} is nested too deep: ${errorMessage(cause)}`, cause);
  }
}

const CONFIG = 'tokenizer_config.json';

function fingerprintsOf(
  directory: string,
  texts: Record<string, string | null>,
  config: Json,
  chatTemplate: string | null,
): TokenizerFingerprints {
  const hashes = Object.entries(texts).flatMap(([name, text]) =>
    text === null ? [] : [[name, sha256(text)] as const],
  );
  const { chat_template: _, ...rest } = config;
  return {
    files: { ...Object.fromEntries(hashes), [CONFIG]: sha256(compact(join(directory, CONFIG), rest)) },
    chatTemplate: chatTemplate === null ? null : sha256(chatTemplate),
  };
}

export async function readTokenizerFiles(directory: string): Promise<TokenizerFiles> {
  const [tokenizer, config, generation, templateFile] = await Promise.all([
    readJson(join(directory, 'tokenizer.json')),
    readJson(join(directory, CONFIG)),
    readJson(join(directory, 'generation_config.json')),
    readText(join(directory, 'chat_template.jinja')),
  ]);
  if (tokenizer.json === null) {
    throw badInput(
      `No tokenizer.json in ${directory}: give the directory of a Hugging Face model with a fast tokenizer`,
    );
  }
  const texts = { 'tokenizer.json': tokenizer.text, 'generation_config.json': generation.text };
  const chatTemplate = templateFile ?? templateOf(config.json?.chat_template);
  return {
    tokenizer: tokenizer.json,
    config: config.json ?? {},
    generation: generation.json ?? {},
    chatTemplate,
    fingerprints: fingerprintsOf(directory, texts, config.json ?? {}, chatTemplate),
  };
}
