/** The settings of a supervised run. Those that `train` has too are the same fields, some with other defaults. */
import { z } from 'zod';
import {
  badConfig,
  commonProblems,
  configSchema,
  didYouMean,
  plain,
  PRESETS,
  problemsOf,
  withFullDtype,
  trlHint,
  fieldLists,
} from '../config';
import { count, orElse, orNull, text } from '../config/kinds';

const train = configSchema.shape;
const columnName = (what: string) => text().optional().describe(`Column with ${what}.`);

const columnNames = z.strictObject({
  messages: columnName('a list of messages whose last is learnt'),
  prompt: columnName('the prompt, text or messages'),
  completion: columnName('the completion, text or messages'),
  problem: columnName('the question'),
  solution: columnName('the worked solution'),
});

/** Names of columns by role; a dotted name reaches into a nested object. */
export type SftColumns = z.output<typeof columnNames>;

const dataFields = {
  model: train.model,
  adapter: train.adapter,
  dataset: text().describe(
    'Training data: a known name (docs/data.md), org/name on the hub, a file or a folder. Combine several as "a + b".',
  ),
  datasetConfig: train.datasetConfig,
  datasetSplit: train.datasetSplit,
  columns: orElse(columnNames, {}).describe(
    'Column names by role: messages, prompt, completion, problem, solution. Roles not listed are looked up under the usual names.',
  ),
  skipBadRows: train.skipBadRows,
  promptTemplate: train.promptTemplate.describe(
    'User message of a row with problem and solution; {problem} is replaced by the problem.',
  ),
  enableThinking: train.enableThinking,
  evalDataset: train.evalDataset.describe(
    'Data to evaluate on, named like `dataset` and with the same columns; null: examples held out from `dataset`.',
  ),
  evalDatasetConfig: train.evalDatasetConfig,
  evalDatasetSplit: train.evalDatasetSplit,
  evalExamples: orElse(count(0), 0).describe(
    'Examples to evaluate on, which are not trained on; 0: no evaluation. The first of `evalDataset`, or a random choice from `dataset`.',
  ),
  maxLength: orNull(count(2), 4096).describe(
    "Maximum tokens of prompt and completion; longer examples are left out, not cut. null: the model's context. TRL: max_length.",
  ),
};

const optimizerFields = {
  batchSize: orElse(count(), 8).describe(
    'Examples per update. TRL: per_device_train_batch_size x gradient_accumulation_steps.',
  ),
  epochs: orElse(count(), 3).describe('Times that each example is trained on. TRL: num_train_epochs.'),
  maxSteps: orNull(count()).describe('Number of updates; null: `epochs` decides. TRL: max_steps.'),
  learningRate: train.learningRate.unwrap().default(1e-4).describe('Peak learning rate of AdamW.'),
  lrSchedulerType: train.lrSchedulerType
    .unwrap()
    .default('linear')
    .describe(train.lrSchedulerType.description!),
  warmupRatio: train.warmupRatio.unwrap().default(0).describe(train.warmupRatio.description!),
  weightDecay: train.weightDecay.unwrap().default(0).describe(train.weightDecay.description!),
  adamBeta1: train.adamBeta1,
  adamBeta2: train.adamBeta2,
  adamEpsilon: train.adamEpsilon,
  maxGradNorm: train.maxGradNorm,
  full: train.full,
  loraRank: train.loraRank,
  loraAlpha: train.loraAlpha,
  useRslora: train.useRslora,
  loraDropout: train.loraDropout,
  targetModules: train.targetModules,
};

const runFields = {
  name: train.name.describe('Name of the run, used for its folder; null: sft.'),
  seed: train.seed,
  evalSteps: train.evalSteps.describe(
    'Steps between evaluations; 0: only before and after training. TRL: eval_steps.',
  ),
  saveSteps: train.saveSteps.describe('Steps between checkpoints; 0: only at the end.'),
  keepCheckpoints: train.keepCheckpoints.describe(
    'How many of the newest checkpoints to keep, besides the one with the lowest loss on held-out examples; null: all.',
  ),
  microBatchTokens: train.microBatchTokens,
  memoryLimitBytes: train.memoryLimitBytes,
  device: train.device,
  threads: train.threads,
  dtype: train.dtype,
  quantization: train.quantization,
};

const watchedFields = {
  tensorboard: train.tensorboard,
  csv: train.csv,
  sinks: train.sinks,
  sinkTimeoutMs: train.sinkTimeoutMs,
  notify: train.notify,
  watchdogMs: train.watchdogMs,
  watchdogPhaseMs: train.watchdogPhaseMs,
  onHang: train.onHang,
};

/** The fields by heading, in the order of the documentation. */
export const SFT_FIELD_GROUPS = {
  'Model and data': dataFields,
  Optimiser: optimizerFields,
  Run: runFields,
  'Watching and trackers': watchedFields,
} as const;

export const sftSchema = z.strictObject({
  ...dataFields,
  ...optimizerFields,
  ...runFields,
  ...watchedFields,
});

export type SftConfig = z.output<typeof sftSchema>;
/** The settings a user may give. */
export type SftInput = Partial<z.input<typeof sftSchema>>;

export const SFT_KEYS: readonly string[] = Object.keys(sftSchema.shape);

/** Names of TRL's SFTConfig that mean something else to `train`. */
const TRL_NAMES: Readonly<Record<string, string>> = {
  evalstrategy: 'evalSteps',
  perdeviceevalbatchsize: 'microBatchTokens',
  evalonstart: 'evalExamples',
  chattemplatekwargs: 'enableThinking',
  maxseqlen: 'maxLength',
  numtrainepochs: 'epochs',
  perdevicetrainbatchsize: 'batchSize',
  gradientaccumulationsteps: 'batchSize',
  maxseqlength: 'maxLength',
};

/** What is always so here, by TRL's name for the choice. */
const TRL_CHOICES: Readonly<Record<string, string>> = {
  packing: 'passes are always packed, without padding, and examples never see each other',
  evalpacking: 'passes are always packed, without padding, and examples never see each other',
  paddingfree: 'passes are never padded',
  padtomultipleof: 'passes are never padded',
  completiononlyloss: 'the loss is always on the completion only',
  assistantonlyloss: 'the last message is learnt, and those before it are the prompt',
  truncationmode: 'examples longer than `maxLength` are left out, not cut',
  eostoken: "the end of a turn is the tokenizer's own",
  padtoken: 'nothing is padded',
  shuffledataset: 'every epoch has its own order, by the seed',
  datasetnumproc: 'text is turned into ids once, before the first step',
  gradientcheckpointing: 'layers are computed again where memory asks for it',
};

function hint(name: string): string {
  const choice = TRL_CHOICES[plain(name)];
  if (choice !== undefined) return `; leave it out: ${choice}`;
  const ours = TRL_NAMES[plain(name)];
  if (ours !== undefined) return `; use \`${ours}\` instead`;
  if (Object.hasOwn(train, name)) return '; it is a setting of `acoer train` only';
  const trl = trlHint(name);
  const named = [...trl.matchAll(/`(\w+)`/g)].map(([, setting]) => setting!);
  return trl !== '' && named.every((setting) => SFT_KEYS.includes(setting))
    ? trl
    : didYouMean(name, SFT_KEYS);
}

/** The embedded model is asked as its preset of `train` asks it: it knows no other letters. */
const ownPrompt = (model: unknown): SftInput =>
  model === 'tiny' ? { promptTemplate: PRESETS['tiny']!.values.promptTemplate } : {};

const evaluationProblems = ({ evalDataset, evalExamples }: SftConfig) =>
  evalDataset === null || evalExamples > 0
    ? []
    : [{ path: 'evalDataset', message: 'set evalExamples, how many of its examples are evaluated' }];

/** `layers`, later ones over earlier ones, over the defaults. @throws BAD_CONFIG listing every problem */
export function resolveSft(layers: readonly SftInput[]): SftConfig {
  const given: Record<string, unknown> = {};
  for (const [name, value] of layers.flatMap((layer) => Object.entries(layer))) {
    if (value !== undefined) given[name] = value;
  }
  if (given['dataset'] === undefined) {
    throw badConfig([
      { path: 'dataset', message: 'name the training data, for example --dataset data.jsonl' },
    ]);
  }
  const { data, error } = sftSchema.safeParse({ ...ownPrompt(given['model']), ...given });
  if (error !== undefined) {
    throw badConfig(error.issues.flatMap((issue) => problemsOf(issue, given, SFT_KEYS, hint)));
  }
  const config = withFullDtype(data);
  const problems = [...commonProblems(config), ...evaluationProblems(config)];
  if (problems.length > 0) throw badConfig(problems);
  return config;
}

export const describeSft = (): string => `${fieldLists(SFT_FIELD_GROUPS, sftSchema).join('\n')}\n`;
