/**
 * A model's folder in Hugging Face's layout: config.json, and model.safetensors or shards with their index.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { NativeTensorTable } from '../engine/binding';
import { shownJson } from '../base/json';
import { parseFields } from './config-file';
import { badFile, readJson } from './files';
import { modelFamilies } from './families';
import { checkedSpec, type ModelFamily, type ModelSpec } from './spec';
import { openFilesAs, type TensorFiles, type TensorNames } from './tensor-files';

const MAX_SHARDS = 1_000;

const NAMES = z.object({
  architectures: z.array(z.string('must be a name'), 'must be a list of names').nullish(),
  model_type: z.string('must be a name').nullish(),
});

/** @throws BAD_FILE for an unsupported family or none */
function familyOf(config: unknown, path: string): ModelFamily {
  const { architectures, model_type: modelType } = parseFields(NAMES, config, path);
  const families = modelFamilies();
  const known = families.map((family) => family.architecture).join(', ');
  const refusal = (what: string) =>
    badFile(`${path} asks for ${what}, which this engine does not support; it supports ${known}`);
  let found: ModelFamily | undefined;
  for (const name of architectures ?? []) {
    found = families.find((family) => family.architecture === name);
    if (found === undefined) throw refusal(`the architecture ${name.slice(0, 100)}`);
  }
  if (modelType) {
    found = families.find((family) => family.modelType === modelType && (found ?? family) === family);
    if (found === undefined) throw refusal(`the model type ${modelType.slice(0, 100)}`);
  }
  if (found === undefined) throw badFile(`${path} names neither architectures nor model_type`);
  return found;
}

async function describe(directory: string): Promise<{ family: ModelFamily; spec: ModelSpec }> {
  const path = join(directory, 'config.json');
  const config = await readJson(path);
  const family = familyOf(config, path);
  return { family, spec: checkedSpec(family.readSpec(config, path), path) };
}

/**
 * Reads `directory`/config.json. @throws BAD_FILE naming the field that is missing, wrong or not supported
 */
export const readModelSpec = async (directory: string): Promise<ModelSpec> =>
  (await describe(directory)).spec;

/** `model_type` of the family that reads the folder's config.json. @throws BAD_FILE */
export const readModelType = async (directory: string): Promise<string> =>
  (await describe(directory)).family.modelType;

const INDEX = z.object({ weight_map: z.record(z.string(), z.string(), 'must be an object') });

/** The files that make up the weights. @throws BAD_FILE */
export async function weightFiles(directory: string): Promise<string[]> {
  const single = join(directory, 'model.safetensors');
  if (existsSync(single)) return [single];
  const indexPath = `${single}.index.json`;
  if (!existsSync(indexPath)) {
    throw badFile(
      `${directory} has neither model.safetensors nor model.safetensors.index.json; give a Hugging Face model directory with safetensors weights`,
    );
  }
  const { weight_map: places } = parseFields(INDEX, await readJson(indexPath), indexPath);
  const names = [...new Set(Object.values(places))].sort();
  if (names.length === 0) throw badFile(`${indexPath} has an empty weight_map`);
  if (names.length > MAX_SHARDS) throw badFile(`${indexPath} names more than ${MAX_SHARDS} files`);
  const stranger = names.find((name) => name.includes('/'));
  if (stranger !== undefined) {
    throw badFile(`${indexPath} names ${shownJson(stranger)}, which is not a file name`);
  }
  return names.map((name) => join(directory, name));
}

/** Everything about a model except its weights; the files stay open until it is disposed of. */
export interface ModelFiles extends AsyncDisposable {
  spec: ModelSpec;
  weights: NativeTensorTable;
  /** Maps tensor names in this model's files to the engine's names. */
  names: TensorNames;
}

const EMBEDDING = 'model.embed_tokens.weight';
const HEAD = 'lm_head.weight';

/**
 * What transformers makes of `tie_word_embeddings` and the tensors: a head is tied if it is not stored, or equal
 * to the embedding; the embedding is the head if that alone is stored; two different ones are both kept. Changes
 * the table to what the engine reads.
 */
async function isTied({ tieWordEmbeddings }: ModelSpec, files: TensorFiles): Promise<boolean> {
  const { tensors } = files.table;
  const heads = tensors.filter(({ name }) => name === HEAD);
  const [head, ...others] = heads;
  // Names that are there twice are for the engine to reject.
  if (!tieWordEmbeddings || head === undefined || others.length > 0) return tieWordEmbeddings;
  const embedding = tensors.find(({ name }) => name === EMBEDDING);
  if (embedding === undefined) {
    head.name = EMBEDDING;
    return true;
  }
  if (!(await files.equal(embedding, head))) return false;
  tensors.splice(tensors.indexOf(head), 1);
  return true;
}

/** Opens a model directory in Hugging Face's layout. @throws BAD_FILE */
export async function openModelFiles(directory: string): Promise<ModelFiles> {
  const { family, spec: asked } = await describe(directory);
  const make = async (files: TensorFiles) => {
    const spec = { ...asked, tieWordEmbeddings: await isTied(asked, files) };
    const names: TensorNames = (stored) => {
      const name = family.tensorName(stored, spec);
      return spec.tieWordEmbeddings && name === HEAD ? null : name;
    };
    return { spec, names, weights: files.table };
  };
  return openFilesAs(await weightFiles(directory), make, (stored) => family.tensorName(stored, asked));
}
