/** Weights are pushed as they are, so what they say of themselves is checked first. */
import { basename } from 'node:path';
import { badInput } from '../base/errors';
import { shownJson } from '../base/json';
import { looksLikeHubId } from '../hub';
import { badFile, openRegularFile, parseJson, readBytes } from '../models/files';
import { readGgufHeader } from '../models/gguf-files';
import { headerPlace, parseHeader } from '../models/safetensors';
import { isWords } from './fields';

/** A file of weights: its size, and the type of its first tensor. */
export interface Weights {
  bytes: number;
  dtype: string;
}

/** @throws BAD_FILE for a damaged file, BAD_INPUT for one with metadata that acoer does not write */
export async function checkedSafetensors(path: string): Promise<Weights> {
  const bad = (what: string, cause?: unknown) =>
    badFile(`${path} is damaged or not a safetensors file: ${what}`, cause);
  const { file, bytes } = await openRegularFile(path);
  try {
    const { from, to } = headerPlace(await readBytes(file, path, 0, Math.min(8, bytes)), bytes, bad);
    const header = await readBytes(file, path, from, to - from);
    const [first] = parseHeader(header, bytes, bad);
    const { __metadata__: metadata = {} } = parseJson(header, path) as { __metadata__?: object };
    const other = Object.entries(metadata).find((entry) => shownJson(entry) !== '["format","pt"]');
    if (other !== undefined) {
      throw badInput(
        `${path} has the metadata ${shownJson(other[0])}, which acoer does not write and would be published; push what acoer wrote.`,
      );
    }
    return { bytes, dtype: first?.dtype ?? 'F32' };
  } finally {
    await file.close();
  }
}

const GGUF_GENERAL = new Set([
  ...[
    'architecture',
    'type',
    'name',
    'basename',
    'size_label',
    'license',
    'file_type',
    'quantization_version',
  ],
  ...['alignment', 'finetune'],
]);
const GGUF_TOKENIZER =
  /^tokenizer\.(?:chat_template|ggml\.(?:model|pre|tokens|token_type|scores|merges|\w+_token_ids?|add_\w+))$/;
const PLAIN_NAME = /^[\p{L}\p{N} _.+()-]*$/u;

/** Lists of the card that may be published if they are words. */
const GGUF_LISTS = new Set(['tags', 'languages']);

/** Whether a key with this value may be published; null: an array that is no short list of texts. */
function isPublicKey(name: string, value: unknown, architecture: unknown): boolean {
  if (GGUF_TOKENIZER.test(name)) return true;
  const [room, ...rest] = name.split('.');
  const part = rest.join('.');
  if (room === 'general') {
    if (/^(base_model|dataset)\./.test(part)) {
      return typeof value === 'number' || (typeof value === 'string' && isPublicName(value));
    }
    if (part.startsWith('sampling.')) return typeof value === 'number';
    if (GGUF_LISTS.has(part))
      return Array.isArray(value) && value.every((one) => PLAIN_NAME.test(String(one)));
    return GGUF_GENERAL.has(part) && (typeof value !== 'string' || PLAIN_NAME.test(value));
  }
  return (room === 'adapter' || room === architecture) && value !== null && isWords(value);
}

const isPublicName = (value: string): boolean =>
  PLAIN_NAME.test(value) || looksLikeHubId(value.replace(/^https:\/\/huggingface\.co\//, ''));

/** @throws BAD_FILE for a damaged file, BAD_INPUT for one with keys that acoer does not write */
export async function checkedGguf(path: string): Promise<{ bytes: number; lora: boolean }> {
  const { keys, arrays, bytes } = await readGgufHeader(path);
  const architecture = keys.get('general.architecture');
  const all: [string, unknown][] = [...keys, ...arrays];
  const wrong = all.find(([name, value]) => !isPublicKey(name, value, architecture));
  if (wrong !== undefined) {
    throw badInput(
      `${basename(path)} has the key ${shownJson(wrong[0])}, which acoer export does not write and would be published; push a file that it wrote.`,
    );
  }
  return { bytes, lora: keys.get('general.type') === 'adapter' };
}
