/**
 * How the settings of TRL's GRPOConfig and GRPOTrainer, transformers' TrainingArguments and PEFT's LoraConfig
 * map to ours: the hint for users who type those names, and the table of docs/from-trl.md.
 */
import { OTHER_ABSENT, OTHER_NAMES, TRL_ABSENT } from './foreign-names';
import { plain } from './nearest';
import type { ConfigInput } from './options.generated';

export type SettingName = keyof ConfigInput;

export interface Counterpart {
  /** Our settings, the closest first; empty: there is nothing to set. */
  readonly ours: readonly SettingName[];
  /** How ours differs; null: it means the same. */
  readonly note: string | null;
}

const same = (...ours: SettingName[]): Counterpart => ({ ours, note: null });
const differs = (ours: SettingName | readonly SettingName[], note: string): Counterpart => ({
  ours: typeof ours === 'string' ? [ours] : ours,
  note,
});
const absent = (note: string): Counterpart => ({ ours: [], note });

const ONE_DEVICE = 'a run uses one device';

/** By TRL name, in the order of docs/from-trl.md. */
export const TRL_SETTINGS: Readonly<Record<string, Counterpart>> = {
  model: same('model'),
  model_name_or_path: same('model'),
  pretrained_model_name_or_path: same('model'),
  model_revision: differs('model', 'after an @: Qwen/Qwen3-1.7B@main'),
  revision: differs('model', 'after an @: Qwen/Qwen3-1.7B@main'),
  model_init_kwargs: differs(['dtype', 'model'], 'the number type is `dtype`, a revision comes after an @'),
  processing_class: absent('a model has its tokenizer in its folder; train() also takes one as `tokenizer`'),
  args: absent('its fields are settings at the top level'),
  train_dataset: differs('dataset', 'a name, a file or a folder; train() also takes the rows themselves'),
  dataset_name: same('dataset'),
  dataset_config: same('datasetConfig'),
  dataset_train_split: same('datasetSplit'),
  dataset_test_split: same('evalDatasetSplit'),
  eval_dataset: differs(
    'evalDataset',
    'given like `dataset`; null: its own evaluation split, or problems held out',
  ),
  max_prompt_length: differs(
    'maxPromptLength',
    'longer prompts are skipped, not truncated (older TRL truncated them)',
  ),
  shuffle_dataset: absent('always shuffled, by `seed`'),
  chat_template_kwargs: differs('enableThinking', 'the only argument that can be passed'),

  num_generations: same('numGenerations'),
  max_completion_length: same('maxCompletionLength'),
  temperature: same('temperature'),
  top_k: same('topK'),
  top_p: same('topP'),
  min_p: differs('minP', '0: off'),
  repetition_penalty: same('repetitionPenalty'),
  per_device_train_batch_size: differs(
    ['promptsPerStep', 'microBatchTokens'],
    'a step is promptsPerStep x numGenerations completions; a token budget splits them into passes without changing the result',
  ),
  gradient_accumulation_steps: differs(
    ['promptsPerStep', 'microBatchTokens'],
    'a step is split into as many passes as microBatchTokens requires',
  ),
  per_device_eval_batch_size: differs('maxSlots', 'sequences decoded together; null: the engine decides'),
  steps_per_generation: differs(
    'stepsPerGeneration',
    "counts optimiser updates, where TRL counts passes (1 here is TRL's default)",
  ),
  generation_batch_size: differs(
    ['stepsPerGeneration', 'promptsPerStep'],
    'promptsPerStep x stepsPerGeneration x numGenerations completions are sampled together',
  ),
  num_iterations: same('numIterations'),
  generation_kwargs: differs(
    ['temperature', 'topK', 'topP', 'minP', 'repetitionPenalty'],
    'each is a setting of its own',
  ),
  rollout_func: differs('sampler', 'a JavaScript file; train() also takes a function'),
  use_vllm: differs(
    'sampler',
    '{type: vllm, servers: [URL, ...]}: servers that are running (docs/external-sampler.md)',
  ),
  vllm_mode: differs('sampler', 'always as server: vLLM is started apart'),
  vllm_server_base_url: differs('sampler', 'as `servers`'),
  vllm_server_host: differs('sampler', 'as `servers`: http://HOST:PORT'),
  vllm_server_port: differs('sampler', 'as `servers`: http://HOST:PORT'),
  vllm_server_timeout: differs('sampler', 'as `patienceSeconds`, also while the run is under way'),
  vllm_gpu_memory_utilization: differs('kvBytes', 'in bytes; null: a share of the free memory'),
  vllm_importance_sampling_correction: differs(
    'importanceSamplingCorrection',
    'a mode or null; off where the engine samples, which computes what the trainer does; on where servers do',
  ),
  vllm_importance_sampling_mode: differs('importanceSamplingCorrection', 'null: no correction'),
  vllm_importance_sampling_clip_max: same('importanceSamplingClipMax'),
  vllm_importance_sampling_cap: same('importanceSamplingClipMax'),
  vllm_importance_sampling_clip_min: same('importanceSamplingClipMin'),

  reward_funcs: differs('reward', 'a name or a list of them; train() also takes functions'),
  reward_weights: differs('reward', 'as `weight` in the list of {name, weight, params}'),
  scale_rewards: same('scaleRewards'),
  multi_objective_aggregation: same('multiObjectiveAggregation'),

  loss_type: same('lossType'),
  beta: same('beta'),
  epsilon: same('epsilon'),
  epsilon_high: same('epsilonHigh'),
  delta: same('delta'),
  importance_sampling_level: same('importanceSamplingLevel'),
  mask_truncated_completions: same('maskTruncatedCompletions'),
  use_bias_correction_kl: same('useBiasCorrectionKl'),
  sapo_temperature_pos: differs('lossParams', 'lossParams.sapo.temperaturePos'),
  sapo_temperature_neg: differs('lossParams', 'lossParams.sapo.temperatureNeg'),
  vespo_k_pos: differs('lossParams', 'lossParams.vespo.kPos'),
  vespo_lambda_pos: differs('lossParams', 'lossParams.vespo.lambdaPos'),
  vespo_k_neg: differs('lossParams', 'lossParams.vespo.kNeg'),
  vespo_lambda_neg: differs('lossParams', 'lossParams.vespo.lambdaNeg'),
  sync_ref_model: absent('the reference of the KL term is always the base model'),
  entropy_coef: absent('there is no entropy bonus'),
  top_entropy_quantile: differs('topEntropyQuantile', 'over the tokens of the update, not of one pass'),
  off_policy_mask_threshold: differs('offPolicyMaskThreshold', "always relative to the sampler's log-probs"),

  learning_rate: same('learningRate'),
  lr_scheduler_type: differs('lrSchedulerType', 'linear, cosine or constant; constant also has a warm-up'),
  warmup_ratio: same('warmupRatio'),
  warmup_steps: differs('warmupRatio', 'as a fraction of maxSteps'),
  weight_decay: same('weightDecay'),
  adam_beta1: same('adamBeta1'),
  adam_beta2: same('adamBeta2'),
  adam_epsilon: same('adamEpsilon'),
  max_grad_norm: same('maxGradNorm'),
  optim: absent('AdamW'),
  max_steps: same('maxSteps'),
  num_train_epochs: differs('maxSteps', 'the length of a run is given in steps'),

  peft_config: differs(
    ['loraRank', 'loraAlpha', 'loraDropout', 'targetModules'],
    'train() trains a LoRA adapter unless `full` is set',
  ),
  use_peft: differs('full', 'the opposite: false trains a LoRA adapter'),
  lora_r: same('loraRank'),
  r: same('loraRank'),
  lora_alpha: same('loraAlpha'),
  use_rslora: same('useRslora'),
  lora_dropout: same('loraDropout'),
  lora_target_modules: same('targetModules'),
  target_modules: same('targetModules'),

  exclude_modules: differs('targetModules', 'name those to adapt'),
  disable_dropout: differs('loraDropout', '0: no dropout; the base model has none'),

  torch_dtype: differs('dtype', "float32, bfloat16 or float64; null: the model's own"),
  dtype: differs('dtype', "float32, bfloat16 or float64; null: the model's own"),
  bf16: differs('dtype', 'bfloat16'),
  fp16: differs('dtype', 'float32, bfloat16 or float64'),
  gradient_checkpointing: absent('automatic: layers are recomputed unless their activations are small'),
  load_in_4bit: differs('quantization', 'true: nf4'),
  load_in_8bit: differs('quantization', 'true: int8'),
  bnb_4bit_quant_type: differs('quantization', 'nf4; there is no fp4'),
  use_bnb_nested_quant: absent('nf4 always has it: the scales are quantised, too'),
  use_cpu: differs('device', 'cpu'),
  deepspeed: absent(ONE_DEVICE),
  fsdp: absent(ONE_DEVICE),

  no_cuda: differs('device', 'cpu'),

  seed: same('seed'),
  data_seed: differs('seed', 'one seed for everything'),
  run_name: differs('name', 'also names the folder'),
  report_to: differs(
    ['tensorboard', 'csv', 'sinks'],
    'metrics.jsonl always; TensorBoard by default; `sinks: [wandb]` for Weights & Biases',
  ),
  callbacks: differs('sinks', 'told of every step; or iterate over the run that train() gives'),
  evaluation_strategy: differs('evalSteps', '0: only before and after training'),
  eval_strategy: differs('evalSteps', '0: only before and after training'),
  eval_steps: same('evalSteps'),
  eval_on_start: absent('the base model is always evaluated first'),
  num_generations_eval: absent('one answer per problem; acoer eval -n K samples more'),
  save_strategy: differs('saveSteps', '0: only at the end and after the best evaluation'),
  save_steps: same('saveSteps'),
  save_total_limit: differs('keepCheckpoints', 'the best one is kept in addition'),
  load_best_model_at_end: absent('the best checkpoint is kept; summary.json names its step'),
  logging_steps: absent('every step is logged to metrics.jsonl'),
  log_completions: differs(
    ['logCompletions', 'completionsSteps'],
    'steps between printed completions, 0: none; all are in the tables of completions/',
  ),
  num_completions_to_print: differs('logCompletions', 'one is printed every so many steps'),
  output_dir: absent('not a setting: use `acoer train --out DIR`, or `out` of train()'),
  resume_from_checkpoint: absent('not a setting: use `acoer train --resume RUN`, or `resume` of train()'),
};

/** Names of other programs that TRL does not have. */
const others = Object.entries(OTHER_NAMES).map(([name, ours]) => [name, same(ours as SettingName)] as const);

const absences = [...OTHER_ABSENT, ...TRL_ABSENT].map(([name, reason]) => [name, absent(reason)] as const);

const BY_PLAIN_NAME = new Map(
  [...others, ...absences, ...Object.entries(TRL_SETTINGS)].map(([name, found]) => [plain(name), found]),
);

/** What to append to "unknown setting" for a name of another program; empty for one that differs only in underscores. */
export function trlHint(name: string): string {
  const found = BY_PLAIN_NAME.get(plain(name));
  if (found === undefined || (found.note === null && plain(found.ours[0]!) === plain(name))) return '';
  const note = found.note === null ? '' : `: ${found.note}`;
  if (found.ours.length === 0) return `; it has no counterpart here${note}`;
  return `; use ${found.ours.map((setting) => `\`${setting}\``).join(' and ')} instead${note}`;
}

/** TRL's name for the same setting, or null. */
export function trlNameOf(setting: string): string | null {
  const entry = Object.entries(TRL_SETTINGS).find(
    ([, { ours, note }]) => note === null && ours[0] === setting,
  );
  return entry?.[0] ?? null;
}
