/** PEFT's adapter_config.json: the shape of a LoRA, and errors for options that are not supported. */
import { join } from 'node:path';
import { z } from 'zod';
import type { NativeTensorTable } from '../engine/binding';
import { TARGET_MODULES, type TargetModule } from '../engine/types';
import { shownJson } from '../json';
import { flag, parseFields } from './config-file';
import { badFile, readJson } from './files';
import { openTensorFiles } from './tensor-files';

export interface AdapterShape {
  rank: number;
  alpha: number;
  /** Scaled by alpha / sqrt(rank) instead of alpha / rank. */
  rslora: boolean;
  dropout: number;
  targetModules: TargetModule[];
}

const CONFIG = z.looseObject({
  peft_type: z.literal('LORA', 'must be LORA'),
  r: z.int('must be a whole number').min(1, 'must be at least 1'),
  lora_alpha: z.number('must be a number'),
  use_rslora: flag,
  lora_dropout: z.number('must be a number').nullish(),
  bias: z.literal('none', 'must be none').nullish(),
  target_modules: z.union([z.string(), z.array(z.string())], 'must be a name or a list of names'),
});

/** PEFT options that change what an adapter computes; each is off when null, false or empty. */
const OTHERS = [
  'use_dora', 'modules_to_save', 'rank_pattern', 'alpha_pattern', 'layers_to_transform', 'layers_pattern',
  'exclude_modules', 'fan_in_fan_out', 'lora_bias', 'layer_replication', 'target_parameters', 'trainable_token_indices',
  'use_qalora', 'alora_invocation_tokens',
] as const; // prettier-ignore

const isOff = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === false ||
  (typeof value === 'object' && Object.keys(value).length === 0);

/** Module names as PEFT accepts them: of the module alone, or with its block. */
const MODULES: ReadonlyMap<string, TargetModule> = new Map(
  TARGET_MODULES.flatMap((module) => {
    const block = ['q_proj', 'k_proj', 'v_proj', 'o_proj'].includes(module) ? 'self_attn' : 'mlp';
    return [
      [module, module],
      [`${block}.${module}`, module],
    ] as const;
  }),
);

/** Reads `directory`/adapter_config.json. @throws BAD_FILE */
export async function readAdapterShape(directory: string): Promise<AdapterShape> {
  const path = join(directory, 'adapter_config.json');
  const config = parseFields(CONFIG, await readJson(path), path);
  const other = OTHERS.find((key) => !isOff(config[key]));
  if (other !== undefined) throw badFile(`${path} uses ${other}, which this engine does not support`);
  const { target_modules: named } = config;
  const targets = named === 'all-linear' ? TARGET_MODULES : [named].flat();
  const targetModules = targets.map((name) => {
    const module = MODULES.get(name);
    if (module !== undefined) return module;
    throw badFile(
      `${path} targets the module ${shownJson(name)}, which is not one of ${TARGET_MODULES.join(', ')}`,
    );
  });
  return {
    rank: config.r,
    alpha: config.lora_alpha,
    rslora: config.use_rslora === true,
    dropout: config.lora_dropout ?? 0,
    targetModules,
  };
}

export const adapterWeights = (directory: string): string => join(directory, 'adapter_model.safetensors');

/** An adapter's shape and tensors; its file stays open until it is disposed of. */
export interface AdapterFiles extends AsyncDisposable {
  shape: AdapterShape;
  table: NativeTensorTable;
}

/** Opens a directory with PEFT's adapter_config.json and adapter_model.safetensors. @throws BAD_FILE */
export async function openAdapter(directory: string): Promise<AdapterFiles> {
  const shape = await readAdapterShape(directory);
  const files = await openTensorFiles([adapterWeights(directory)]);
  return { shape, table: files.table, [Symbol.asyncDispose]: () => files[Symbol.asyncDispose]() };
}
