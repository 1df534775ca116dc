/**
 * The model that an adapter was trained on: checkpoints (state.json) and `final/` (identity.json) record its
 * fingerprints, and the adapter is used with that model only. PEFT's adapters record nothing and pass.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { abortable } from '../base/abortable';
import type { Engine, LoadOptions, Model } from '../engine/types';
import { modelFingerprints, type Fingerprints } from '../models';
import { checked, FINAL_IDENTITY, readJsonFile, STATE } from '../run';
import type { Tokenizer } from '../tokenizer';
import { changed, CHAT_TEMPLATE, checkModelFolder, tokenizerIdentity, type BaseIdentity } from './identity';

const fingerprints = z.record(z.string(), z.string());
const RECORD = z.looseObject({
  step: z.int().min(0).optional(),
  identity: z
    .looseObject({
      model: fingerprints,
      tokenizer: fingerprints.nullable(),
      chatTemplate: fingerprints.nullable().optional(),
    })
    .optional(),
  loop: z.looseObject({ step: z.int().min(0) }).optional(),
  sft: z.looseObject({ step: z.int().min(0) }).optional(),
});

export interface BaseModel {
  /** Folder of the adapter or the weights. */
  folder: string;
  step: number;
  identity: BaseIdentity;
}

/** Supervised runs keep the chat template among the tokenizer's fingerprints. */
function separated({
  model,
  tokenizer,
  chatTemplate,
}: z.infer<typeof RECORD>['identity'] & object): BaseIdentity {
  if (chatTemplate !== undefined || tokenizer === null)
    return { model, tokenizer, chatTemplate: chatTemplate ?? null };
  const { [CHAT_TEMPLATE]: template, ...files } = tokenizer;
  return {
    model,
    tokenizer: files,
    chatTemplate: template === undefined ? {} : { [CHAT_TEMPLATE]: template },
  };
}

/** What `folder` records of the model it was trained on; null: nothing. @throws BAD_INPUT for a damaged record */
export function baseModelOf(folder: string): BaseModel | null {
  const path = [FINAL_IDENTITY, STATE].map((name) => join(folder, name)).find((file) => existsSync(file));
  if (path === undefined) return null;
  const data = checked(RECORD, path, readJsonFile(path));
  const { step = data.loop?.step ?? data.sft?.step ?? 0, identity } = data;
  return identity === undefined ? null : { folder, step, identity: separated(identity) };
}

/**
 * Loads a model while its files are hashed.
 * @throws what `loadModel` throws; BAD_FILE; what `abortable` throws
 */
export async function loadHashed(
  engine: Engine,
  directory: string,
  options: LoadOptions,
): Promise<{ model: Model; fingerprints: Fingerprints }> {
  const failed = new AbortController();
  const hashing = modelFingerprints(directory, failed.signal);
  hashing.catch(() => undefined);
  let model: Model | null = null;
  try {
    model = await engine.loadModel(directory, options);
    return { model, fingerprints: await abortable(hashing, options.signal) };
  } catch (error) {
    failed.abort();
    await model?.dispose();
    throw error;
  }
}

const advice = ({ folder }: BaseModel, them: string) => `restore ${them}, or name the model of ${folder}`;

/** @throws BAD_INPUT naming weights, or config.json, that are not those the adapter was trained on */
export function checkBaseModel(base: BaseModel, directory: string, model: Fingerprints): void {
  checkModelFolder(directory, base.step, changed(base.identity.model, model), (them) => advice(base, them));
}

/**
 * The same for the tokenizer, and for the chat template unless `template` is false: training may have another.
 * @throws BAD_INPUT
 */
export function checkBaseTokenizer(
  base: BaseModel,
  directory: string,
  tokenizer: Tokenizer,
  template = true,
): void {
  const now = tokenizerIdentity(tokenizer);
  // It cannot be told for a tokenizer that a program made itself.
  if (now.tokenizer === null) return;
  const names = [
    ...changed(base.identity.tokenizer, now.tokenizer),
    ...(template ? changed(base.identity.chatTemplate, now.chatTemplate) : []),
  ];
  checkModelFolder(directory, base.step, names, (them) => advice(base, them));
}

/** Loads a model, and hashes it meanwhile if an adapter records what it was trained on. @throws BAD_INPUT */
export async function loadChecked(
  engine: Engine,
  directory: string,
  bases: readonly BaseModel[],
  options: LoadOptions,
): Promise<Model> {
  if (bases.length === 0) return engine.loadModel(directory, options);
  const { model, fingerprints } = await loadHashed(engine, directory, options);
  for (const base of bases) checkBaseModel(base, directory, fingerprints);
  return model;
}
