/**
 * Every field of a run's configuration: its type, its default (the paper's value; TRL's or the field's custom where
 * the paper is silent) and one line that says what it does. Names are TRL's in camelCase where the thing is the same.
 */
import { z } from 'zod';
import { TARGET_MODULES } from '../engine/types';
import { CORRECTION_MODES } from '../losses/corrections';
import { findLoss, listLosses } from '../losses/registry';
import { guardFields } from './guard-fields';
import { watchdogFields } from './watchdog-fields';

const count = (minimum = 1) => z.int().min(minimum);
const positive = () => z.number().positive();
const fraction = () => z.number().min(0).max(1);

const columnName = () => z.string().min(1).optional();

/** Columns by role, where their names are not the usual ones. */
const columnNames = z.strictObject({
  problem: columnName().describe('Column of the question.'),
  answer: columnName().describe('Column of the reference answer.'),
  solution: columnName().describe(
    'Column of a worked solution, whose last box is the reference where there is no answer.',
  ),
  level: columnName().describe('Column of the difficulty.'),
  id: columnName().describe('Column of a name for each problem.'),
});

export const COLUMN_ROLES: readonly string[] = Object.keys(columnNames.shape);

const dataName = () => z.string().min(1).nullable().default(null);

const dataFields = {
  model: z
    .string()
    .min(1)
    .default('Qwen/Qwen3-1.7B')
    .describe(
      'Model to train: "tiny" (embedded), a directory in Hugging Face layout, or a hub name with an optional @revision.',
    ),
  dataset: z
    .string()
    .min(1)
    .default('AI-MO/NuminaMath-TIR')
    .describe(
      'Training data: "tiny" (embedded), a known name (docs/data.md), org/name on the hub, a file or a folder; names take @revision; several as "math + gsm8k".',
    ),
  datasetConfig: dataName().describe('Configuration ("subset") of `dataset`; null: its default.'),
  datasetSplit: dataName().describe('Split of `dataset` to train on; null: its training split.'),
  columns: columnNames
    .default({})
    .describe(
      'Columns of `dataset` by role: problem, answer, solution, level, id; roles not named are looked for under the usual names.',
    ),
  levels: z
    // YAML reads 5 as a number.
    .array(z.coerce.string<string | number>().min(1))
    .min(1)
    .nullable()
    .default(null)
    .describe('Train on problems of these levels only; null: all.'),
  dropUnparsedGold: z
    .boolean()
    .default(true)
    .describe('Leave out training problems whose gold answer the verifier cannot read.'),
  skipBadRows: z
    .boolean()
    .default(false)
    .describe(
      'Leave out rows that cannot be read, with a warning; otherwise the first one ends the command.',
    ),
  promptTemplate: z
    .string()
    .min(1)
    .default(
      'Solve the following math problem. Show your reasoning, then put your final answer in \\boxed{}.\n\n{problem}',
    )
    .describe('User message of each prompt; {problem} stands for the problem.'),
  enableThinking: z.boolean().default(true).describe("`enable_thinking` of the model's chat template."),
  maxPromptLength: count()
    .nullable()
    .default(null)
    .describe(
      'Problems whose prompt has more tokens are skipped; null: those that leave no room for maxCompletionLength in the model.',
    ),
};

const rolloutFields = {
  promptsPerStep: count().default(1).describe('Prompts (groups) per optimiser update.'),
  numGenerations: count(2).default(16).describe('G: completions sampled per prompt.'),
  maxCompletionLength: count().default(8192).describe('L: most new tokens per completion.'),
  temperature: positive().default(1).describe('Sampling temperature.'),
  topK: count(0).default(0).describe('Sample among the k most likely tokens; 0: all.'),
  topP: positive()
    .max(1)
    .default(1)
    .describe('Sample from the smallest set of tokens with this probability; 1: all.'),
  minP: fraction().default(0).describe("Drop tokens below this share of the likeliest token's probability."),
  repetitionPenalty: positive().default(1).describe('Above 1: tokens already present become less likely.'),
  stepsPerGeneration: count()
    .default(1)
    .describe('Updates whose prompts are generated together, before the first of them is trained on.'),
  numIterations: count().default(1).describe('mu: times each generated batch is trained on.'),
  maxSlots: count()
    .nullable()
    .default(null)
    .describe("Most sequences decoded together; null: the engine's choice."),
  kvBytes: count()
    .nullable()
    .default(null)
    .describe(
      'Most bytes of the KV cache; null: a quarter of the memory that is free when a batch is generated, on a GPU three quarters.',
    ),
};

const rewardEntry = z.strictObject({
  name: z.string().min(1).describe('Name of a reward: one of `acoer reward --list`, or one of your own.'),
  weight: z.number().default(1).describe('Its weight in the sum.'),
  params: z.record(z.string(), z.unknown()).default({}).describe('Its parameters.'),
});

const rewardFields = {
  reward: z
    .union([z.string().min(1), z.array(rewardEntry).min(1)])
    .default('acoer')
    .describe('Reward by name, or a list of {name, weight, params} that are added up.'),
  rewardParams: z
    .record(z.string(), z.record(z.string(), z.unknown()))
    .default({})
    .describe("Parameters of rewards by the reward's name; `params` in `reward` wins."),
  rewardModules: z
    .record(z.string().min(1), z.string().min(1))
    .default({})
    .describe(
      "Rewards of your own: name -> JavaScript file whose default export is one; relative to the configuration's file.",
    ),
  formatWeight: z
    .number()
    .min(0)
    .default(1)
    .describe(
      'Weight of r_format: 1 for a closed <think>...</think> and a \\boxed{}, else 0. 0 leaves it out.',
    ),
  answerFrom: z
    .enum(['answer', 'last-box'])
    .default('answer')
    .describe(
      "Where training looks for a completion's answer: the boxes after </think> (answer), or, as the authors' code, the last box of all of the text, thinking included, else <answer> (last-box). Evaluations keep the paper's protocol.",
    ),
  rewardTimeoutMs: positive()
    .default(30_000)
    .describe('A reward that has not answered for one completion after this long fails the run.'),
  multiObjectiveAggregation: z
    .enum(['sum_then_normalize', 'normalize_then_sum'])
    .default('sum_then_normalize')
    .describe(
      'How several rewards become one advantage: added up and normalised, or each normalised in its group, then added up.',
    ),
  scaleRewards: z
    .enum(['group', 'batch', 'none'])
    .default('group')
    .describe("What the advantages are divided by: the group's std, the whole batch's, or nothing."),
  advantageEpsilon: z
    .number()
    .min(0)
    .default(1e-4)
    .describe('Added to the std before dividing (TRL has 1e-4, the paper nothing).'),
  numRemainsInGroup: count(2)
    .nullable()
    .default(null)
    .describe('GFPO: completions of each group to learn from, the others get advantage 0; null: all.'),
  groupFilter: z
    .enum(['shortest', 'efficiency'])
    .default('shortest')
    .describe('Which completions numRemainsInGroup keeps: the shortest, or the most reward per token.'),
};

const lossNames = () =>
  listLosses()
    .map(({ name }) => name)
    .join(', ');

const lossFields = {
  lossType: z
    .string()
    .refine((name) => findLoss(name) !== undefined, { error: () => `must be one of ${lossNames()}` })
    .default('grpo')
    .describe(
      "The loss: grpo, bnpo, dr_grpo, dapo, cispo, sapo, luspo or vespo, as in TRL, or one of your own. The paper's is the original grpo.",
    ),
  lossParams: z
    .record(z.string(), z.record(z.string(), z.unknown()))
    .default({})
    .describe("Parameters of losses by the loss's name (docs/losses.md)."),
  importanceSamplingLevel: z
    .enum(['token', 'sequence'])
    .default('token')
    .describe('Importance ratio per token, or one per sequence (GSPO).'),
  epsilon: positive().default(0.2).describe('Lower clipping width (and upper, unless epsilonHigh is given).'),
  epsilonHigh: positive()
    .nullable()
    .default(null)
    .describe('Upper clipping width; null: epsilon. The cap itself for cispo.'),
  delta: positive()
    .nullable()
    .default(null)
    .describe('Upper bound of the unclipped ratio (two-sided clipping); null: none.'),
  beta: z.number().min(0).default(0).describe('Weight of the KL term against the base model.'),
  useBiasCorrectionKl: z
    .boolean()
    .default(true)
    .describe('Multiply the KL estimate by the importance ratio.'),
  importanceSamplingCorrection: z
    .enum(CORRECTION_MODES)
    .nullable()
    .default(null)
    .describe(
      'Weigh the policy loss by trainer over sampler probability, of each token or of the whole completion; beyond the bounds the bound counts (truncate) or nothing (mask); null: no weights.',
    ),
  importanceSamplingClipMin: positive()
    .nullable()
    .default(null)
    .describe('Lower bound of importanceSamplingCorrection; null: none.'),
  importanceSamplingClipMax: positive()
    .nullable()
    .default(3)
    .describe('Upper bound of importanceSamplingCorrection; null: none.'),
  topEntropyQuantile: z
    .number()
    .gt(0)
    .max(1)
    .default(1)
    .describe(
      'Share of the tokens of an update, those of highest entropy, that the policy loss is made of; below 1 each update scores its completions once more.',
    ),
  offPolicyMaskThreshold: positive()
    .nullable()
    .default(null)
    .describe(
      'Completions with a negative advantage leave the policy loss when the mean of sampled - current log-prob is above this; null: none do.',
    ),
  maskTruncatedCompletions: z
    .boolean()
    .default(false)
    .describe('Leave completions cut off at maxCompletionLength out of the loss.'),
};

const optimizerFields = {
  learningRate: z.number().min(0).default(5e-6).describe('Peak learning rate of AdamW.'),
  lrSchedulerType: z
    .enum(['linear', 'cosine', 'constant'])
    .default('cosine')
    .describe('Course of the learning rate after warm-up: down to 0 (linear, cosine) or constant.'),
  warmupRatio: fraction().default(0.1).describe('Share of maxSteps over which the rate rises from 0.'),
  weightDecay: z.number().min(0).default(0.01).describe('Decoupled weight decay.'),
  adamBeta1: z.number().min(0).lt(1).default(0.9).describe("AdamW's beta1."),
  adamBeta2: z.number().min(0).lt(1).default(0.999).describe("AdamW's beta2."),
  adamEpsilon: positive().default(1e-8).describe("AdamW's epsilon."),
  maxGradNorm: z.number().min(0).default(1).describe('Gradients are scaled down to this norm; 0: never.'),
  maxSteps: count().default(1200).describe('Optimiser updates of the run.'),
  loraRank: count().default(16).describe('Rank of the LoRA matrices.'),
  loraAlpha: positive().default(32).describe('LoRA is scaled by loraAlpha / loraRank.'),
  loraDropout: z.number().min(0).lt(1).default(0).describe("Dropout on LoRA's input during training."),
  targetModules: z
    .array(z.enum(TARGET_MODULES))
    .min(1)
    .default([...TARGET_MODULES])
    .describe('Linear layers LoRA adapts.'),
};

const runFields = {
  name: z
    .string()
    .regex(/^[\w.-]+$/, 'letters, digits, ".", "_" and "-" only')
    .nullable()
    .default(null)
    .describe("Name of the run, for its folder; null: the reward's."),
  seed: z.int().min(0).default(42).describe('Seed of every random stream of the run.'),
  saveSteps: count(0)
    .default(200)
    .describe('Steps between checkpoints; 0: only the last, and that of the best evaluation.'),
  keepCheckpoints: count()
    .nullable()
    .default(5)
    .describe('Newest checkpoints to keep, besides the one that evaluated best; null: all.'),
  evalSteps: count(0).default(200).describe('Steps between evaluations; 0: only before and after.'),
  evalDataset: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe('Data evaluated on, named like `dataset`; null: the evaluation split of `dataset`.'),
  evalDatasetConfig: dataName().describe(
    'Configuration ("subset") of the data evaluated on; null: its default.',
  ),
  evalDatasetSplit: dataName().describe('Split evaluated on; null: test, else validation.'),
  evalColumns: columnNames
    .nullable()
    .default(null)
    .describe('As `columns`, for `evalDataset`; null: the usual names.'),
  evalProblems: count(0).default(500).describe('Problems of the greedy evaluation; 0: none.'),
  evalSampledProblems: count(0)
    .default(0)
    .describe('Problems of the evaluation sampled at temperature 1; 0: none.'),
  evalMaxNewTokens: count().default(16_384).describe('Most new tokens per completion in evaluation.'),
  completionsSteps: count(0).default(10).describe('Steps between tables of completions; 0: none.'),
  sinks: z
    .array(z.string().min(1))
    .default([])
    .describe(
      "JavaScript files whose default export makes a sink: where the run's numbers go besides its own files (docs/metrics.md); relative to the configuration's file.",
    ),
  microBatchTokens: count()
    .default(16_384)
    .describe(
      'Most tokens per forward and backward pass; changes memory and speed, never the gradient. Lowered by the run when memory runs out.',
    ),
  memoryLimitBytes: count()
    .nullable()
    .default(null)
    .describe(
      "Most bytes of the engine's tensors; what needs more is cut into smaller parts. null: until the device has no more.",
    ),
  nonFinitePolicy: z
    .enum(['skip', 'stop', 'rollback'])
    .default('skip')
    .describe(
      'After a step refused because something was not finite (nothing of it is applied): go on with the next, stop, or go ' +
        'back to a checkpoint with other seeds (counts towards maxRollbacks).',
    ),
  maxNonFiniteSteps: count()
    .default(10)
    .describe('Refused steps on end with which a run stops under `skip`: then the weights are to blame.'),
  device: z
    .string()
    .regex(/^(auto|cpu|cuda(:\d+)?)$/, 'auto, cpu, cuda or cuda:<n>')
    .default('auto')
    .describe('Where to run: auto, cpu, cuda or cuda:<n>.'),
  threads: count().nullable().default(null).describe('CPU threads of the engine; null: all cores.'),
  dtype: z
    .enum(['float32', 'bfloat16', 'float64'])
    .nullable()
    .default(null)
    .describe("Type of the base weights; null: the model's own (float32 for the tiny model)."),
};

/** The fields in the order they are documented, under their headings. */
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
