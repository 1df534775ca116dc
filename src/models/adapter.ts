/** PEFT's adapters: what a LoRA adapts, and errors for what is not supported. */
import { join } from 'node:path';
import { z } from 'zod';
import type { NativeTensorTable } from '../engine/binding';
import { TARGET_MODULES, type LoraMatrix, type LoraOptions, type TargetModule } from '../engine/types';
import { shownJson } from '../base/json';
import { configuredMatrices, moduleName, type Configured, type TargetFields } from './adapter-targets';
import { flag, number, parseFields } from './config-file';
import { badFile, readJson } from './files';
import { openFilesAs } from './tensor-files';

/** `rank` and `alpha` are those of the matrices for which no pattern sets others. */
export interface AdapterShape extends Required<Pick<LoraOptions, 'rank' | 'alpha' | 'rslora' | 'dropout'>> {
  /** The modules that are adapted, in one layer at least. */
  targetModules: TargetModule[];
  /** What is adapted, by layer. */
  matrices: LoraMatrix[];
}

const names = z.union([z.string(), z.array(z.string())], 'must be a name or a list of names');
const rank = z.int('must be a whole number').min(1, 'must be at least 1');
const layer = z.int('must be a whole number');
const CONFIG = z.looseObject({
  peft_type: z.literal('LORA', 'must be LORA'),
  r: rank,
  lora_alpha: number,
  use_rslora: flag,
  lora_dropout: number.nullish(),
  bias: z.literal('none', 'must be none').nullish(),
  target_modules: names,
  exclude_modules: names.nullish(),
  layers_to_transform: z.union([layer, z.array(layer)], 'must be a layer or a list of layers').nullish(),
  layers_pattern: names.nullish(),
  rank_pattern: z.record(z.string(), rank, 'must be an object').nullish(),
  alpha_pattern: z.record(z.string(), number, 'must be an object').nullish(),
  init_lora_weights: z.union([z.boolean(), z.string()], 'must be true, false or a name').nullish(),
});

/** PEFT options that change what an adapter computes; each is off when null, false or empty. */
const OTHERS = [
  'use_dora', 'modules_to_save', 'fan_in_fan_out', 'lora_bias', 'layer_replication', 'target_parameters',
  'trainable_token_indices', 'use_qalora', 'use_bdlora', 'alora_invocation_tokens', 'arrow_config', 'kasa_config',
  'monteclora_config', 'velora_config',
] as const; // prettier-ignore

/** Ways to begin an adapter under which PEFT also changes the base model, each time it loads the adapter. */
const CHANGES_BASE = /^(pissa|corda|olora$|loftq$|lora_ga$)/i;

const isOff = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === false ||
  (typeof value === 'object' && Object.keys(value).length === 0);

const configPath = (directory: string): string => join(directory, 'adapter_config.json');
export const adapterWeights = (directory: string): string => join(directory, 'adapter_model.safetensors');

/** @throws BAD_FILE */
async function readConfig(path: string): Promise<z.output<typeof CONFIG>> {
  const config = parseFields(CONFIG, await readJson(path), path);
  const other = OTHERS.find((key) => !isOff(config[key]));
  if (other !== undefined) throw badFile(`${path} uses ${other}, which this engine does not support`);
  const { init_lora_weights: initial } = config;
  if (typeof initial === 'string' && CHANGES_BASE.test(initial)) {
    throw badFile(
      `${path}: init_lora_weights is ${shownJson(initial)}, under which PEFT changes the base model as well, which this engine does not support; convert it to a plain LoRA (path_initial_model_for_weight_conversion of PEFT's save_pretrained)`,
    );
  }
  return config;
}

const TENSOR = /^base_model\.model\.(model\.layers\.\d+\.(?:self_attn|mlp)\.[a-z_]+)\.lora_A\.weight$/;
const tensorName = (module: string): string => `base_model.model.${module}.lora_A.weight`;

/** The rank of each adapted module, by the module's name, as the shapes of the A matrices have it. */
function storedRanks({ tensors }: NativeTensorTable): Map<string, number> {
  const ranks = new Map<string, number>();
  for (const { name, shape } of tensors) {
    const module = TENSOR.exec(name)?.[1];
    if (module !== undefined && shape.length === 2) ranks.set(module, shape[0]!);
  }
  return ranks;
}

/**
 * What the tensors hold, if it is what the configuration asks for. Tensors of other names are left to the engine,
 * which rejects those that the adapter does not have.
 * @throws BAD_FILE
 */
function agreed({ matrices, known }: Configured, table: NativeTensorTable, path: string): LoraMatrix[] {
  const weights = table.files[0]!.path;
  const ranks = storedRanks(table);
  const agreedOn: LoraMatrix[] = [];
  for (const matrix of matrices) {
    const name = moduleName(matrix.layer, matrix.module);
    const stored = ranks.get(name);
    ranks.delete(name);
    if (stored === undefined) {
      if (!known) continue;
      throw badFile(`${weights} lacks the tensor ${tensorName(name)}, although ${path} adapts ${name}`);
    }
    if (matrix.rank !== null && matrix.rank !== stored) {
      throw badFile(
        `${weights} adapts ${name} with rank ${stored}, but by ${path} it has rank ${matrix.rank} (r and rank_pattern)`,
      );
    }
    agreedOn.push({ ...matrix, rank: stored });
  }
  const [stranger] = ranks.keys();
  if (stranger !== undefined) {
    throw badFile(
      `${weights} holds the tensor ${tensorName(stranger)}, but ${path} does not adapt ${stranger} in this model`,
    );
  }
  if (agreedOn.length === 0) {
    throw badFile(`${path} adapts none of ${TARGET_MODULES.join(', ')} in this model`);
  }
  return agreedOn;
}

/** @throws BAD_FILE */
function shapeOf(
  config: z.output<typeof CONFIG>,
  table: NativeTensorTable,
  numLayers: number,
  path: string,
): AdapterShape {
  const matrices = agreed(configuredMatrices(config satisfies TargetFields, numLayers, path), table, path);
  return {
    rank: config.r,
    alpha: config.lora_alpha,
    rslora: config.use_rslora === true,
    dropout: config.lora_dropout ?? 0,
    targetModules: TARGET_MODULES.filter((module) => matrices.some((matrix) => matrix.module === module)),
    matrices,
  };
}

/** An adapter's shape and tensors; its file stays open until it is disposed of. */
export interface AdapterFiles extends AsyncDisposable {
  shape: AdapterShape;
  table: NativeTensorTable;
}

/**
 * Opens a directory with PEFT's adapter_config.json and adapter_model.safetensors, for a model of `numLayers`
 * layers.
 * @throws BAD_FILE
 */
export async function openAdapter(directory: string, numLayers: number): Promise<AdapterFiles> {
  const path = configPath(directory);
  const config = await readConfig(path);
  return openFilesAs([adapterWeights(directory)], ({ table }) => ({
    shape: shapeOf(config, table, numLayers, path),
    table,
  }));
}

/** What the adapter in `directory` adapts in a model of `numLayers` layers. @throws BAD_FILE */
export async function readAdapterShape(directory: string, numLayers: number): Promise<AdapterShape> {
  await using files = await openAdapter(directory, numLayers);
  return files.shape;
}
