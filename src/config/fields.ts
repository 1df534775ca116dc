/**
 * Every field of a run's configuration: type, default and a one-line description. Defaults are the paper's values, or
 * TRL's or common practice where the paper is silent. Names are TRL's in camelCase where TRL has the setting.
 */
import { z } from 'zod';
import {
  KV_CACHE_DTYPES,
  MOST_SPECULATIVE_TOKENS,
  QUANTIZATIONS,
  TARGET_MODULES,
  type TargetModule,
} from '../engine/types';
import { CORRECTION_MODES } from '../losses/corrections';
import { findLoss, listLosses } from '../losses/registry';
import { guardFields } from './guard-fields';
import {
  count,
  flag,
  fraction,
  nonNegative,
  oneOf,
  orElse,
  orNull,
  parameters,
  positive,
  text,
} from './kinds';
import { ADDRESS, isAddress, REDACTED } from './notify';
import { vllmSampler } from './samplers';
import { watchdogFields } from './watchdog-fields';

/** PEFT's name for all linear layers but the head. */
const ALL_LINEAR = 'all-linear';

const columnName = () => text().optional();

/** Columns by role, for data that does not use the usual names. */
const columnNames = z.strictObject({
  problem: columnName().describe('Column with the question.'),
  answer: columnName().describe('Column with the reference answer.'),
  solution: columnName().describe(
    'Column with a worked solution; its last \\boxed{} is the reference if there is no answer.',
  ),
  level: columnName().describe('Column with the difficulty level.'),
  id: columnName().describe('Column with a unique id for each problem.'),
});

export const COLUMN_ROLES: readonly string[] = Object.keys(columnNames.shape);

const dataName = () => orNull(text());

/** YAML parses an unquoted 5 as a number. */
const levelName = () => z.coerce.string<string | number>().min(1);

const PROMPT =
  'Solve the following math problem. Show your reasoning, then put your final answer in \\boxed{}.\n\n{problem}';

const dataFields = {
  model: orElse(text(), 'Qwen/Qwen3-1.7B').describe(
    'Model to train: "tiny" (embedded), a directory in Hugging Face layout, or a Hugging Face hub name with an optional @revision.',
  ),
  adapter: orNull(text()).describe(
    "Folder of a LoRA adapter to continue training, PEFT's or a run's final/ (docs/models.md). loraRank, loraAlpha and targetModules are then the adapter's. null: a new adapter.",
  ),
  dataset: orElse(text(), 'AI-MO/NuminaMath-TIR').describe(
    'Training data: "tiny" (embedded), a known name (docs/data.md), org/name on the hub, a file or a folder. Hub names may end in @revision. Combine several as "math + gsm8k".',
  ),
  datasetConfig: dataName().describe('Configuration ("subset") of `dataset`; null: the default one.'),
  datasetSplit: dataName().describe('Split of `dataset` to train on; null: its training split.'),
  columns: orElse(columnNames, {}).describe(
    'Column names in `dataset` by role: problem, answer, solution, level, id. Roles not listed are looked up under the usual names.',
  ),
  levels: orNull(z.array(levelName()).min(1)).describe(
    'Train only on problems of these levels; null: all levels.',
  ),
  dropUnparsedGold: flag(true).describe(
    'Leave out training problems whose gold answer the judge cannot read.',
  ),
  skipBadRows: flag(false).describe(
    'Skip unreadable rows with a warning instead of failing at the first one.',
  ),
  promptTemplate: orElse(text(), PROMPT).describe(
    'User message of each prompt; {problem} is replaced by the problem.',
  ),
  enableThinking: flag(true).describe("Value of `enable_thinking` passed to the model's chat template."),
  maxPromptLength: orNull(count()).describe(
    "Maximum tokens of a prompt; problems with longer ones are skipped. null: whatever maxCompletionLength leaves of the model's context.",
  ),
};

const samplerEntry = z.strictObject({
  name: text().describe('engine, or a JavaScript file.'),
  params: parameters().describe('What the file gets as `params`.'),
});

const rolloutFields = {
  promptsPerStep: orElse(count(), 1).describe('Prompts (groups) per optimiser update.'),
  numGenerations: orElse(count(2), 16).describe('G: completions sampled per prompt.'),
  maxCompletionLength: orElse(count(), 8192).describe('L: maximum new tokens per completion.'),
  temperature: orElse(positive(), 1).describe('Sampling temperature.'),
  topK: orElse(count(0), 0).describe('Sample only from the k most likely tokens; 0: all.'),
  topP: orElse(positive().max(1), 1).describe(
    'Sample from the smallest set of tokens whose total probability reaches this; 1: all.',
  ),
  minP: orElse(fraction(), 0).describe(
    "Drop tokens less likely than this fraction of the most likely token's probability.",
  ),
  repetitionPenalty: orElse(positive(), 1).describe('Above 1, tokens that already occur become less likely.'),
  stepsPerGeneration: orElse(count(), 1).describe(
    'Number of updates whose completions are generated together, before the first of these updates.',
  ),
  numIterations: orElse(count(), 1).describe('mu: how many times each generated batch is trained on.'),
  groupsInFlight: orNull(count(2)).describe(
    'Groups that decode at the same time: a step ends when the groups it trains on are complete, and the next one goes on with the others under the new weights (docs/in-flight.md). null: a step samples its own groups, to the end.',
  ),
  maxStaleness: orElse(count(), 8).describe(
    'With groupsInFlight: the most updates between the policy that sampled a token and the one that trains on it first.',
  ),
  maxSlots: orNull(count()).describe('Maximum sequences decoded together; null: the engine decides.'),
  kvBytes: orNull(count()).describe(
    'Maximum size of the KV cache in bytes; null: a share of the memory that is free when a batch is generated, a quarter on a CPU and three quarters on a GPU.',
  ),
  kvCacheDtype: oneOf(...KV_CACHE_DTYPES).describe(
    "What decoding keeps keys and values in. auto: the model's type. int8: one byte each with a scale per token and head, half of bfloat16's memory; sampler and trainer then differ by a little more (docs/kv-cache.md), which importanceSamplingCorrection weighs. vLLM's name is kv_cache_dtype.",
  ),
  numSpeculativeTokens: orElse(count(0).max(MOST_SPECULATIVE_TOKENS), 0).describe(
    "Most tokens of a completion that a step of decoding computes beside its last one, because they followed the same tokens before, in its own text or its group's. They count where they are what is drawn anyway: fewer steps, the same completions (docs/speculation.md). 0: none. vLLM's name is num_speculative_tokens, of its method ngram.",
  ),
  sampler: orElse(z.union([text(), samplerEntry, vllmSampler]), 'engine').describe(
    'What samples the completions to train on: engine; {type: vllm, servers: [URL, ...]} for servers of vLLM (docs/external-sampler.md); a JavaScript file that default-exports a function which makes a sampler (docs/api.md), or {name, params}. The path is relative to the configuration file. Evaluations always sample with the engine.',
  ),
};

const rewardEntry = z.strictObject({
  name: text().describe('Name of the reward: one listed by `acoer reward --list`, or your own.'),
  weight: orElse(z.number(), 1).describe('Weight in the sum.'),
  params: parameters().describe('Parameters of the reward.'),
});

const rewardFields = {
  reward: orElse(z.union([text(), z.array(rewardEntry).min(1)]), 'acoer').describe(
    'Name of a reward, or a list of {name, weight, params} whose weighted sum is the reward.',
  ),
  rewardParams: orElse(z.record(z.string(), z.record(z.string(), z.unknown())), {}).describe(
    'Parameters of rewards by reward name; `params` in `reward` takes precedence.',
  ),
  rewardModules: orElse(z.record(text(), text()), {}).describe(
    'Your own rewards: name -> JavaScript file that default-exports one. Paths are relative to the configuration file.',
  ),
  formatWeight: orElse(nonNegative(), 1).describe(
    'Weight of r_format, which is 1 for a completion that keeps `formatRule`, else 0. 0 disables it.',
  ),
  formatRule: orNull(z.enum(['boxed', 'thinking', 'regex'])).describe(
    'What r_format asks of a completion. boxed: a closed <think>...</think> and a \\boxed{}. thinking: a closed <think>...</think>. regex: a match of `formatPattern`. null: boxed for the judge math, else thinking.',
  ),
  formatPattern: orNull(text()).describe(
    'Regular expression of the format rule regex, searched in the whole completion, thinking included; `.` also matches a line end.',
  ),
  judge: orElse(text(), 'math').describe(
    'What decides whether a completion is right, in training and evaluation (docs/tasks.md). math: the verifier. exact: the text of the reference. choice: the letter of an option. regex: a pattern. Or a JavaScript file that default-exports a function of (completion, problem); its path is relative to the configuration file.',
  ),
  judgeParams: parameters().describe(
    'Parameters of the judge, such as pattern, ignoreCase and compare of regex (docs/tasks.md).',
  ),
  answerFrom: oneOf('answer', 'last-box').describe(
    "Where the judge math looks for a completion's answer in training. answer: in the boxes after </think>; thinking that never closes has no answer, nor has a text that ends inside a box. last-box: like the authors' code, in the last box of the whole text including the thinking, or else in <answer>. Evaluations always follow the paper's protocol.",
  ),
  rewardTimeoutMs: orElse(positive(), 30_000).describe(
    'The run fails if a reward, or a judge of your own, takes longer than this for one completion.',
  ),
  multiObjectiveAggregation: oneOf('sum_then_normalize', 'normalize_then_sum').describe(
    'How several rewards become one advantage: summed, then normalised; or each normalised within its group, then summed.',
  ),
  scaleRewards: oneOf('group', 'batch', 'none').describe(
    "What the advantages are divided by: the group's std, the whole batch's, or nothing.",
  ),
  advantageEpsilon: orElse(nonNegative(), 1e-4).describe(
    'Added to the std before dividing. TRL uses 1e-4, the paper 0.',
  ),
  numRemainsInGroup: orNull(count(2)).describe(
    'GFPO: how many completions of each group to learn from; the others get advantage 0. null: all.',
  ),
  groupFilter: oneOf('shortest', 'efficiency').describe(
    'Which completions numRemainsInGroup keeps: the shortest, or those with the most reward per token.',
  ),
};

const lossNames = () =>
  listLosses()
    .map(({ name }) => name)
    .join(', ');

const lossFields = {
  lossType: orElse(
    z
      .string()
      .refine((name) => findLoss(name) !== undefined, { error: () => `must be one of ${lossNames()}` }),
    'grpo',
  ).describe(
    'Loss function: grpo, bnpo, dr_grpo, dapo, cispo, sapo, luspo or vespo as in TRL, or your own. The paper uses the original grpo.',
  ),
  lossParams: orElse(z.record(z.string(), z.record(z.string(), z.unknown())), {}).describe(
    'Parameters of losses by loss name (docs/losses.md).',
  ),
  importanceSamplingLevel: oneOf('token', 'sequence').describe(
    'One importance ratio per token, or one per sequence (GSPO).',
  ),
  epsilon: orElse(positive(), 0.2).describe(
    'Lower clipping range; also the upper one unless epsilonHigh is given.',
  ),
  epsilonHigh: orNull(positive()).describe('Upper clipping range; null: epsilon. For cispo, the cap itself.'),
  delta: orNull(positive()).describe('Upper bound on the unclipped ratio (two-sided clipping); null: none.'),
  beta: orElse(nonNegative(), 0).describe(
    'Weight of the KL term against the model that training starts from: the base model, with `adapter` if there is one.',
  ),
  useBiasCorrectionKl: flag(true).describe('Multiply the KL estimate by the importance ratio.'),
  importanceSamplingCorrection: orNull(z.enum(CORRECTION_MODES)).describe(
    'Weight the policy loss by the probability ratio of trainer to sampler, per token or per completion. Ratios outside the bounds are clipped (truncate) or dropped from the loss (mask). null: no weighting. With servers as `sampler`, groupsInFlight, or kvCacheDtype int8, the default is token_truncate.',
  ),
  importanceSamplingClipMin: orNull(positive()).describe(
    'Lower bound on the ratio of importanceSamplingCorrection; null: none.',
  ),
  importanceSamplingClipMax: orNull(positive(), 3).describe(
    'Upper bound on the ratio of importanceSamplingCorrection; null: none. With servers as `sampler`, groupsInFlight, or kvCacheDtype int8, the default is 2.',
  ),
  topEntropyQuantile: orElse(z.number().gt(0).max(1), 1).describe(
    "Fraction of an update's tokens, those with the highest entropy, that enter the policy loss. Below 1, each update scores its completions once more.",
  ),
  offPolicyMaskThreshold: orNull(positive()).describe(
    'Completions with a negative advantage are dropped from the policy loss when their mean of sampled minus current log-prob exceeds this; null: never.',
  ),
  maskTruncatedCompletions: flag(false).describe(
    'Exclude completions cut off at maxCompletionLength from the loss.',
  ),
};

const optimizerFields = {
  learningRate: orElse(nonNegative(), 5e-6).describe('Peak learning rate of AdamW.'),
  lrSchedulerType: orElse(z.enum(['linear', 'cosine', 'constant']), 'cosine').describe(
    'Learning rate schedule after warm-up: decay to 0 (linear, cosine) or constant.',
  ),
  warmupRatio: orElse(fraction(), 0.1).describe(
    'Fraction of maxSteps over which the learning rate rises from 0.',
  ),
  weightDecay: orElse(nonNegative(), 0.01).describe('Decoupled weight decay; norms and biases do not decay.'),
  adamBeta1: orElse(nonNegative().lt(1), 0.9).describe("AdamW's beta1."),
  adamBeta2: orElse(nonNegative().lt(1), 0.999).describe("AdamW's beta2."),
  adamEpsilon: orElse(positive(), 1e-8).describe("AdamW's epsilon."),
  maxGradNorm: orElse(nonNegative(), 1).describe(
    'Gradients with a larger norm are scaled down to it; 0: never.',
  ),
  maxSteps: orElse(count(), 1200).describe('Number of optimiser updates.'),
  full: flag(false).describe(
    'Train all weights, in float32 unless dtype is float64, instead of a LoRA adapter: 24 bytes per parameter besides activations.',
  ),
  loraRank: orElse(count(), 16).describe('Rank of the LoRA matrices.'),
  loraAlpha: orElse(positive(), 32).describe('LoRA updates are scaled by loraAlpha / loraRank.'),
  useRslora: flag(false).describe('rsLoRA: LoRA updates are scaled by loraAlpha / sqrt(loraRank).'),
  loraDropout: orElse(nonNegative().lt(1), 0).describe("Dropout on LoRA's input during training."),
  targetModules: z
    .union([z.enum([ALL_LINEAR]), z.array(z.enum(TARGET_MODULES)).min(1)])
    .default([...TARGET_MODULES])
    .transform((modules): TargetModule[] => (modules === ALL_LINEAR ? [...TARGET_MODULES] : modules))
    .describe(`Linear layers that LoRA adapts; ${ALL_LINEAR}: the seven of every layer.`),
};

const runFields = {
  name: orNull(z.string().regex(/^[\w.-]+$/, 'letters, digits, ".", "_" and "-" only')).describe(
    "Name of the run, used for its folder; null: the reward's name.",
  ),
  seed: orElse(z.int().min(0), 42).describe('Seed of all random streams of the run.'),
  saveSteps: orElse(count(0), 200).describe(
    'Steps between checkpoints; 0: only at the end and after the best evaluation.',
  ),
  keepCheckpoints: orNull(count(), 5).describe(
    'How many of the newest checkpoints to keep, besides the one with the best evaluation; null: all.',
  ),
  evalSteps: orElse(count(0), 200).describe('Steps between evaluations; 0: only before and after training.'),
  evalDataset: orNull(text()).describe(
    'Evaluation data, named like `dataset`; null: the evaluation split of `dataset`.',
  ),
  evalDatasetConfig: dataName().describe(
    'Configuration ("subset") of the evaluation data; null: the default one.',
  ),
  evalDatasetSplit: dataName().describe('Split to evaluate on; null: test, else validation.'),
  evalColumns: orNull(columnNames).describe('Like `columns`, for `evalDataset`; null: the usual names.'),
  evalProblems: orElse(count(0), 500).describe('Number of problems in the greedy evaluation; 0: none.'),
  evalSampledProblems: orElse(count(0), 0).describe(
    'Number of problems in the evaluation sampled at temperature 1; 0: none.',
  ),
  evalMaxNewTokens: orElse(count(), 16_384).describe('Maximum new tokens per completion in evaluations.'),
  completionsSteps: orElse(count(0), 10).describe('Steps between completion tables; 0: none.'),
  logCompletions: orElse(count(0), 50).describe(
    'Steps between completions that are printed, one each time; 0: none.',
  ),
  tensorboard: flag(true).describe(
    "Write TensorBoard's event file to `tensorboard/` in the run's folder (docs/trackers.md).",
  ),
  csv: flag(false).describe('Also write the metrics as a table, metrics.csv (docs/trackers.md).'),
  sinks: orElse(z.array(text()), []).describe(
    "Where the run's numbers go besides its own files (docs/trackers.md): wandb, or JavaScript files whose default export creates a sink. Each runs in a thread of its own. Paths are relative to the configuration file.",
  ),
  sinkTimeoutMs: orElse(positive(), 10_000).describe(
    'A sink of your own that takes longer than this for one call is left out for the rest of the run.',
  ),
  notify: orNull(
    z.string().refine((text) => text === REDACTED || isAddress(text), { error: `must be ${ADDRESS}` }),
  ).describe(
    "Address that gets a JSON message when the run collapses, ends or fails (docs/notify.md). It is a secret: a run's files have `redacted` in its place, and a resumed run must be given it again. null: the environment variable ACOER_NOTIFY, if there is one.",
  ),
  microBatchTokens: orElse(count(), 13_824).describe(
    "Maximum tokens per forward and backward pass. Affects memory and speed, never the gradient. The run lowers it when memory runs out. The default is as much as 48 GB hold of the paper's model without computing a layer twice; `acoer plan` says what suits others.",
  ),
  memoryLimitBytes: orNull(count()).describe(
    "Maximum bytes of the engine's tensors; work that needs more is split into smaller parts. null: whatever the device has.",
  ),
  nonFinitePolicy: oneOf('skip', 'stop', 'rollback').describe(
    'What to do after a refused step, one rejected because a number in it was not finite (nothing of it is ' +
      'applied): continue with the next step, stop, or roll back to a checkpoint with other seeds (counts ' +
      'towards maxRollbacks).',
  ),
  maxNonFiniteSteps: orElse(count(), 10).describe(
    'Under `skip`: stop after this many refused steps in a row, because then the weights are at fault.',
  ),
  device: orElse(
    z.string().regex(/^(auto|cpu|cuda(:\d+)?)$/, 'auto, cpu, cuda or cuda:<n>'),
    'auto',
  ).describe('Where to run: auto, cpu, cuda or cuda:<n>.'),
  threads: orNull(count()).describe("Number of the engine's CPU threads; null: all cores."),
  dtype: orNull(z.enum(['float32', 'bfloat16', 'float64'])).describe(
    "Type of the base weights; null: the model's own (float32 for the tiny model).",
  ),
  quantization: orNull(z.enum(QUANTIZATIONS)).describe(
    "Keeps the linear weights of the base's layers in fewer bits and trains a LoRA over them: nf4 (4.13 bits a weight, QLoRA's, with double quantisation) or int8 (8 bits, a scale per row). They are quantised when the model is loaded, and sampler and trainer compute with the same ones. null: they are in `dtype`, as embedding, head and norms always are.",
  ),
};

/** The fields by heading, in the order of the documentation. */
export const FIELD_GROUPS = {
  'Model and data': dataFields,
  Rollouts: rolloutFields,
  Rewards: rewardFields,
  Loss: lossFields,
  Optimiser: optimizerFields,
  'Collapse guard': guardFields,
  Watchdog: watchdogFields,
  Run: runFields,
} as const;

export const configSchema = z.strictObject({
  ...dataFields,
  ...rolloutFields,
  ...rewardFields,
  ...lossFields,
  ...optimizerFields,
  ...guardFields,
  ...watchdogFields,
  ...runFields,
});

/** A complete configuration: every field present. */
export type Config = z.output<typeof configSchema>;
