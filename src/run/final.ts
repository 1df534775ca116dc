/** `final/`: the trained adapter or model as a folder that can be pushed to the hub as it is. */
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Policy, LoraMatrix, Model } from '../engine/types';
import { MAX_TEXT_BYTES } from '../base/regular-file';
import { jsonText, writeDirectoryAtomic } from './atomic';
import { writeWeights } from './checkpoint';
import { readJsonFile } from './directory';
import { readRunFile } from './read-file';
import { looksLikeHubId, splitRevision } from '../hub';
import { moduleName, TINY_MODEL } from '../models';

export interface LoraShape {
  loraRank: number;
  loraAlpha: number;
  useRslora: boolean;
  loraDropout: number;
  targetModules: readonly string[];
}

/** What an adapter adapts, in PEFT's fields. */
export interface PeftTargets {
  /** Names of modules in every layer, or of single linears. */
  target_modules: string[];
  /** Ranks that are not `r`, and alphas that are not `lora_alpha`, by the linear's name. */
  rank_pattern: Record<string, number>;
  alpha_pattern: Record<string, number>;
}

/** @param matrices all that is adapted in a model of `numLayers` layers */
export function peftTargets(
  { loraRank, loraAlpha, targetModules }: Pick<LoraShape, 'loraRank' | 'loraAlpha' | 'targetModules'>,
  matrices: readonly LoraMatrix[],
  numLayers: number,
): PeftTargets {
  const inEveryLayer = matrices.length === targetModules.length * numLayers;
  const named = matrices.map((matrix) => ({ ...matrix, name: moduleName(matrix.layer, matrix.module) }));
  const others = (field: 'rank' | 'alpha', usual: number) =>
    Object.fromEntries(
      named.filter((matrix) => matrix[field] !== usual).map((matrix) => [matrix.name, matrix[field]]),
    );
  return {
    target_modules: inEveryLayer ? [...targetModules] : named.map(({ name }) => name),
    rank_pattern: others('rank', loraRank),
    alpha_pattern: others('alpha', loraAlpha),
  };
}

/**
 * @param model as named by `resolveModel`: PEFT stores a hub model's commit in a separate field
 * @param targets by default the shape's modules in every layer
 */
export function adapterConfig(
  shape: LoraShape,
  model: string,
  targets: PeftTargets = { target_modules: [...shape.targetModules], rank_pattern: {}, alpha_pattern: {} },
): Record<string, unknown> {
  const { id, revision } = looksLikeHubId(model) ? splitRevision(model) : { id: model };
  return {
    alora_invocation_tokens: null,
    alpha_pattern: targets.alpha_pattern,
    arrow_config: null,
    auto_mapping: null,
    base_model_name_or_path: id,
    bias: 'none',
    corda_config: null,
    ensure_weight_tying: false,
    eva_config: null,
    exclude_modules: null,
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    kasa_config: null,
    layer_replication: null,
    layers_pattern: null,
    layers_to_transform: null,
    loftq_config: {},
    lora_alpha: shape.loraAlpha,
    lora_bias: false,
    lora_dropout: shape.loraDropout,
    lora_ga_config: null,
    megatron_config: null,
    megatron_core: 'megatron.core',
    modules_to_save: null,
    monteclora_config: null,
    peft_type: 'LORA',
    peft_version: '0.21.0',
    qalora_group_size: 16,
    r: shape.loraRank,
    rank_pattern: targets.rank_pattern,
    revision: revision ?? null,
    target_modules: targets.target_modules,
    target_parameters: null,
    task_type: 'CAUSAL_LM',
    trainable_token_indices: null,
    use_bdlora: null,
    use_dora: false,
    use_qalora: false,
    use_rslora: shape.useRslora,
    velora_config: null,
  };
}

/**
 * The adapter_config.json of a run; null: it trains all weights. PEFT would look for the embedded model's name
 * on the hub.
 */
export function runAdapterConfig(
  config: LoraShape & { model: string; full: boolean },
  policy: Policy,
  base: Model,
): Record<string, unknown> | null {
  if (config.full) return null;
  const targets = peftTargets(config, policy.info.matrices, base.info.numLayers);
  return adapterConfig(config, config.model === 'tiny' ? TINY_MODEL : config.model, targets);
}

/** The files of a model folder that define its tokenizer, chat template and generation settings. */
export const TOKENIZER_FILES: readonly string[] = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'chat_template.jinja',
  'generation_config.json',
];

/** In `final/`: what the weights were trained on, by which a later use of them knows the model. */
export const FINAL_IDENTITY = 'identity.json';

export interface FinalContent {
  /** null: all weights were trained. */
  adapterConfig: unknown;
  /** Type of the engine's weights. */
  dtype: string;
  /** Folder of the base model, whose tokenizer files are copied if they exist. */
  modelDirectory: string;
  /** Step of the weights, and the fingerprints of the model under them. */
  trainedOn: { step: number; identity: object };
  /** Content of README.md. */
  modelCard: string;
}

/**
 * The base model's config.json with the type of the weights, under transformers' older and newer name.
 * @param changes fields that are others in what is written
 */
export function modelConfig(modelDirectory: string, dtype: string, changes: object = {}): string {
  const config = readJsonFile(join(modelDirectory, 'config.json')) as Record<string, unknown>;
  const { torch_dtype: older, ...rest } = config;
  return jsonText({ ...rest, ...(older !== undefined && { torch_dtype: dtype }), dtype, ...changes });
}

/** Copies what a model folder has of tokenizer, chat template and generation settings. */
export function copyTokenizer(modelDirectory: string, directory: string): void {
  for (const name of TOKENIZER_FILES) {
    const source = join(modelDirectory, name);
    if (statSync(source, { throwIfNoEntry: false })?.isFile() !== true) continue;
    writeFileSync(join(directory, name), readRunFile(source, MAX_TEXT_BYTES));
  }
}

/**
 * Writes the adapter in PEFT's layout, or the model in Hugging Face's, with tokenizer and model card; the folder
 * appears once complete.
 */
export function saveFinal(
  path: string,
  policy: Policy,
  { adapterConfig, dtype, modelDirectory, trainedOn, modelCard }: FinalContent,
): Promise<void> {
  return writeDirectoryAtomic(path, async (directory) => {
    await writeWeights(directory, policy, adapterConfig);
    if (adapterConfig === null) {
      writeFileSync(join(directory, 'config.json'), modelConfig(modelDirectory, dtype));
    }
    copyTokenizer(modelDirectory, directory);
    writeFileSync(join(directory, FINAL_IDENTITY), jsonText(trainedOn));
    writeFileSync(join(directory, 'README.md'), modelCard);
  });
}
