/** The shape of a model from its config.json, or by the name of a model whose shape is known. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Dtype } from '../engine/types';
import { AcoerError, errorMessage } from '../errors';
import { shownJson } from '../json';
import { resolveShape } from '../models';
import type { ModelShape } from './cost';
import { SHAPES } from './shapes';

export interface PlannedModel {
  shape: ModelShape;
  /** As the files hold it (float16 counts as float32, in which it is computed). */
  storedDtype: Dtype;
  /** Longest sequence, prompt and completion. */
  maxPositions: number;
  /** Of tokenizer.json, which the process keeps in memory several times over. */
  tokenizerBytes: number;
}

/** native/core/config.cpp: of a model that does not say. */
const DEFAULT_POSITIONS = 32_768;

/** Size of Qwen3's tokenizer.json. */
const QWEN3_TOKENIZER_BYTES = 11_422_654;

const DTYPES: Readonly<Record<string, Dtype>> = {
  float32: 'float32',
  float16: 'float32',
  bfloat16: 'bfloat16',
  float64: 'float64',
};

function whole(config: Record<string, unknown>, key: string, path: string): number {
  const value = config[key];
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new AcoerError('BAD_FILE', `${path}: ${key} must be a whole number above 0, not ${shownJson(value)}`);
}

const dtypeOf = (name: unknown): Dtype =>
  typeof name === 'string' && Object.hasOwn(DTYPES, name) ? DTYPES[name]! : 'float32';

function fileBytes(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** Reads `directory`/config.json. Throws BAD_FILE naming the field that is missing or wrong. */
export function readPlannedModel(directory: string): PlannedModel {
  const path = join(directory, 'config.json');
  let config: Record<string, unknown>;
  try {
    config = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
  } catch (cause) {
    throw new AcoerError('BAD_FILE', `cannot read ${path}: ${errorMessage(cause)}`, { cause });
  }
  if (typeof config !== 'object' || config === null) {
    throw new AcoerError('BAD_FILE', `${path} must hold a JSON object`);
  }
  const size = (key: string): number => whole(config, key, path);
  const numHeads = size('num_attention_heads');
  const hiddenSize = size('hidden_size');
  return {
    shape: {
      vocabSize: size('vocab_size'),
      hiddenSize,
      intermediateSize: size('intermediate_size'),
      numLayers: size('num_hidden_layers'),
      numHeads,
      numKvHeads: size('num_key_value_heads'),
      headDim: config.head_dim === undefined ? hiddenSize / numHeads : size('head_dim'),
      tieWordEmbeddings: config.tie_word_embeddings === true,
    },
    storedDtype: dtypeOf(config.dtype ?? config.torch_dtype),
    maxPositions:
      config.max_position_embeddings === undefined ? DEFAULT_POSITIONS : size('max_position_embeddings'),
    tokenizerBytes: fileBytes(join(directory, 'tokenizer.json')),
  };
}

/** The shape of `Qwen/Qwen3-1.7B` and the like is known without the files. */
function knownModel(name: string): PlannedModel | undefined {
  const key = name
    .toLowerCase()
    .replace(/^qwen\//, '')
    .replace(/@.*$/, '');
  if (!Object.hasOwn(SHAPES, key) || key === 'tiny') return undefined;
  const shape = SHAPES[key as keyof typeof SHAPES];
  const { maxPositions } = shape;
  return { shape, storedDtype: 'bfloat16', maxPositions, tokenizerBytes: QWEN3_TOKENIZER_BYTES };
}

/** `name` as in `model:` of a configuration; of a model on the hub only its description is fetched. */
export async function plannedModel(name: string): Promise<PlannedModel> {
  const known = existsSync(name) ? undefined : knownModel(name);
  return known ?? readPlannedModel(await resolveShape(name));
}
