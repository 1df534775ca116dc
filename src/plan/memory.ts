/**
 * Peak memory of a run by item. The items are the engine's tensors, counted from the shapes that its code allocates
 * (in the file of native/core named at each). What no tensor accounts for (the process, the allocator) was measured
 * on a CPU.
 */
import { sum } from '../base/statistics';
import type { Dtype } from '../engine/types';
import {
  attentionElements,
  backwardElements,
  baseBytes,
  BYTES_PER_ELEMENT,
  decodeAdapterElements,
  embeddingParameters,
  largestLinearElements,
  largestMatrixElements,
  layerMatrixParameters,
  LONGEST_SHARING,
  sharesPrompts,
  tapeElements,
  widths,
  type DeviceKind,
} from './cost';
import type { PlanDevice } from './devices';
import { KV_SHARE, planKv, PREFILL_TOKENS, type KvPlan } from './kv';
import type { PlannedModel } from './model-shape';
import { rowsOfStep } from './speculation';
import {
  adaptedBy,
  largestMicroBatch,
  trainedParameters,
  type MicroBatch,
  type PlannedWork,
  type TrainingWork,
} from './workload';

export const PHASES = ['always', 'loading', 'rollout', 'scoring', 'training', 'evaluation'] as const;
export type MemoryPhase = (typeof PHASES)[number];

export interface MemoryItem {
  phase: MemoryPhase;
  name: string;
  bytes: number;
}

export interface MemoryPlan {
  items: MemoryItem[];
  /** Total of each phase's items; all phases come on top of `always`. */
  phaseBytes: Record<MemoryPhase, number>;
  peakBytes: number;
  peakPhase: MemoryPhase;
  /** KV cache of the completions to train on; null: servers sample them. */
  kv: KvPlan | null;
  /** KV cache of an evaluation; null: the run has none. */
  evaluationKv: KvPlan | null;
  /**
   * Tokens of the largest training pass that keeps the activations of all layers for backward. In a larger one
   * (on a CPU: as many as do not fit) layers keep their input and are recomputed.
   */
  keptTokens: number;
  /** Tokens of the largest training pass. */
  microBatchTokens: number;
}

export interface TrainingMemoryInput {
  model: PlannedModel;
  dtype: Dtype;
  kind: DeviceKind;
  work: TrainingWork;
  /** Memory available to the run, before anything is loaded. */
  availableBytes: number;
  /** Processes that train together: each keeps its part of the moments if all weights are trained. Default 1. */
  ranks?: number | undefined;
}

export interface MemoryInput extends TrainingMemoryInput {
  work: PlannedWork;
}

const MIB = 2 ** 20;
/** Node with the libraries mapped, the JavaScript heap and the data of a run; measured (docs/plan.md). */
const PROCESS_BYTES = 270e6;
/** Resident bytes per byte of tokenizer.json; measured (docs/plan.md). */
const TOKENIZER_FACTOR = 12;
/** CUDA context, cuBLAS and the allocator's slack; a prediction. */
const CUDA_CONTEXT_BYTES = 1.3e9;
/** forward.h: the share of the free memory for activations, without what the head takes. */
const KEEP_SHARE = { cpu: 1 / 4, cuda: 3 / 4 };
/** model.h: kSmallModelBytes. */
const MAX_SMALL_BYTES = 64 * MIB;
/** head.cpp: logits are computed for this many elements at a time, for at least 64 tokens. */
const CHUNK_ELEMENTS = 2 ** 24;
const MIN_CHUNK_TOKENS = 64;
/** head.cpp, on a GPU: tokens of a chunk. */
const GPU_CHUNK_TOKENS = 1024;
const wideBytes = (dtype: Dtype): number => (dtype === 'float64' ? 8 : 4);

/** The items of a phase: bytes by name. */
type Items = Readonly<Record<string, number>>;

const total = (items: Items): number => sum(Object.values(items));

/** What no tensor accounts for. */
const outsideEngine = (kind: DeviceKind, { tokenizerBytes }: PlannedModel): Items =>
  kind === 'cpu'
    ? { 'process (Node, libtorch, data)': PROCESS_BYTES, tokenizer: TOKENIZER_FACTOR * tokenizerBytes }
    : { 'CUDA context and libraries': CUDA_CONTEXT_BYTES };

/** gradients.cpp: bytes of gradients for each trained parameter. */
function gradientBytes(input: TrainingMemoryInput): number {
  const wide = wideBytes(input.dtype);
  const small = isSmall(input);
  const sum = input.work.loraRank !== null || small ? 8 : wide;
  // The step's sum, that of the micro-batch in progress where it is made of several runs, and the gradient that is
  // being added, which a GPU joins into one tensor before.
  return sum + (small ? sum : 0) + wide + (input.kind === 'cuda' && sum > wide ? wide : 0);
}

/** The largest matrix, which a GPU dequantises for the library's products. A CPU's threads do a few rows at a time. */
const dequantisedBytes = ({ model, dtype, kind, work }: TrainingMemoryInput): number =>
  kind === 'cuda' && work.quantization !== null
    ? largestMatrixElements(model.shape) * BYTES_PER_ELEMENT[dtype]
    : 0;

function always(input: TrainingMemoryInput): Items {
  const { model, dtype, kind, work, ranks = 1 } = input;
  const { shape } = model;
  const trained = trainedParameters(shape, work);
  const { quantization } = work;
  const full = work.loraRank === null;
  const moments = 2 * (full ? Math.ceil(trained / ranks) : trained);
  return {
    ...outsideEngine(kind, model),
    [quantization === null ? 'base weights' : `base weights, linear layers in ${quantization}`]: baseBytes(
      shape,
      BYTES_PER_ELEMENT[dtype],
      quantization,
    ),
    'dequantised matrix': dequantisedBytes(input),
    [full ? 'trained weights, AdamW moments' : 'LoRA masters, AdamW moments']:
      (trained + moments) * wideBytes(dtype),
    [full ? 'gradients' : 'LoRA gradients']: trained * gradientBytes(input),
  };
}

/** Available under `memoryLimitBytes`, which counts tensors, not the process or CUDA's own memory. */
export function availableUnder(
  limit: number | null,
  { freeBytes, kind }: Pick<PlanDevice, 'freeBytes' | 'kind'>,
  model: PlannedModel,
): number {
  if (limit === null) return freeBytes;
  return Math.min(freeBytes, limit + total(outsideEngine(kind, model)));
}

/** safetensors.cpp: a tensor stored in another type is read whole before conversion. */
function loading({ model: { shape, storedDtype }, dtype, work }: TrainingMemoryInput): Items {
  const stored = storedDtype === dtype ? 0 : BYTES_PER_ELEMENT[storedDtype];
  // model.cpp: read in the model's type, and looked through for what is not finite with a byte for each number.
  const linear = work.quantization === null ? 0 : largestLinearElements(shape);
  return {
    'largest tensor as stored': embeddingParameters(shape) * stored,
    'largest linear before it is quantised': linear * (stored + BYTES_PER_ELEMENT[dtype] + 1),
  };
}

/** model.h: small models on a CPU. */
function isSmall({ model, dtype, kind, work }: TrainingMemoryInput): boolean {
  const bytes = baseBytes(model.shape, BYTES_PER_ELEMENT[dtype], work.quantization);
  return kind === 'cpu' && dtype !== 'bfloat16' && bytes <= MAX_SMALL_BYTES;
}

/** Their matrices are repacked and merged with an adapter, unless they are quantised. */
const isMerged = (input: TrainingMemoryInput): boolean => isSmall(input) && input.work.quantization === null;

function decoding(input: MemoryInput, kv: KvPlan, newTokens: number): Items {
  const { model, dtype, kind, work } = input;
  const { shape } = model;
  const element = BYTES_PER_ELEMENT[dtype];
  const packed = isMerged(input);
  const matrices = layerMatrixParameters(shape) + embeddingParameters(shape);
  const { D, F, q, qkv } = widths(shape);
  const rows = Math.max(work.promptTokens, Math.min(PREFILL_TOKENS, work.prompts * work.promptTokens));
  const perRow = 2 * D + qkv + q + 3 * F;
  const stepRows = rowsOfStep(work.numSpeculativeTokens, Math.max(1, kv.slots), kind);
  const logits = stepRows * shape.vocabSize * wideBytes(dtype);
  const rope = 2 * (work.promptTokens + newTokens) * shape.headDim * wideBytes(dtype);
  const adapter =
    packed || work.loraRank === null ? 0 : decodeAdapterElements(shape, adaptedBy(shape, work)) * element;
  return {
    [`KV cache (${kv.slots} slots)`]: kv.usedBytes,
    'decode copies of weights and adapter': (packed ? matrices * element : 0) + adapter,
    'logits, rotary tables, scratch': logits + rope + rows * perRow * element,
  };
}

/** Memory of a pass over packed sequences outside the layers, for log-probs of `completionTokens`. */
function headBytes(
  { model, dtype, kind, work }: TrainingMemoryInput,
  completionTokens: number,
  slopes: boolean,
): number {
  const { vocabSize: V, hiddenSize: D } = model.shape;
  const element = BYTES_PER_ELEMENT[dtype];
  const largest =
    kind === 'cpu' ? Math.max(MIN_CHUNK_TOKENS, Math.floor(CHUNK_ELEMENTS / V)) : GPU_CHUNK_TOKENS;
  const chunk = Math.min(completionTokens, largest);
  const kept = (slopes ? 3 : 2) * completionTokens * D * element;
  // On a CPU the logits become probabilities in place, unless the head itself is trained. A backward needs the
  // probabilities in the weights' type as well.
  const wide = kind === 'cpu' && (work.loraRank !== null || !slopes) ? 1 : 2;
  const copy = dtype === 'bfloat16' && slopes ? element : 0;
  return kept + chunk * V * (wide * wideBytes(dtype) + copy);
}

/** Bytes that a layer keeps for each token. */
function tapeBytes({ model, dtype, kind, work }: TrainingMemoryInput): number {
  const element = BYTES_PER_ELEMENT[dtype];
  // attention.cpp: a CPU without instructions for bf16 keeps attention in fp32 where it is the library's.
  const isLong = work.promptTokens + work.maxNewTokens > LONGEST_SHARING[dtype];
  const widened = kind === 'cpu' && isLong ? wideBytes(dtype) - element : 0;
  return tapeElements(model.shape) * element + attentionElements(model.shape) * widened;
}

/** packed.h: tokens that a pass computes. A pass may begin and end within a group. */
function rowsOf({ kind, dtype, work }: TrainingMemoryInput, batch: MicroBatch, dropout: number): number {
  const { promptTokens, maxNewTokens, group } = work;
  if (!sharesPrompts({ kind, dtype, longest: promptTokens + maxNewTokens, dropout })) return batch.tokens;
  const prompts = Math.min(batch.sequences, Math.ceil(batch.sequences / group) + 1);
  return batch.tokens - (batch.sequences - prompts) * (promptTokens - 1);
}

/** adapters.cpp: the copy of the matrices that holds the adapter. */
function mergedBytes(input: TrainingMemoryInput, dropout: number): number {
  const { model, dtype, work } = input;
  if (work.loraRank === null || dropout > 0 || !isMerged(input)) return 0;
  return layerMatrixParameters(model.shape) * BYTES_PER_ELEMENT[dtype];
}

/** forward.cpp: no tape, one layer's tensors at a time. */
const scoring = (input: TrainingMemoryInput, batch: MicroBatch): Items => ({
  'weights with the adapter': mergedBytes(input, 0),
  'one layer': tapeBytes(input) * rowsOf(input, batch, 0),
  'vocabulary chunk': headBytes(input, batch.completionTokens, false),
});

/** forward.cpp: whether a pass of `tokens` keeps the activations of all layers. */
function keepsAll(input: TrainingMemoryInput, tokens: number, freeBytes: number): boolean {
  const tape = tapeBytes(input) * input.model.shape.numLayers;
  return tokens * tape <= KEEP_SHARE[input.kind] * (freeBytes - headBytes(input, tokens, true));
}

/** Tokens of the largest training pass that keeps the activations of all layers. */
function mostKept(input: TrainingMemoryInput, freeBytes: number): number {
  const { work } = input;
  const most = Math.max(work.microBatchTokens, work.promptTokens + work.maxNewTokens);
  let [kept, tooMany] = [0, most + 1];
  while (tooMany - kept > 1) {
    const middle = Math.floor((kept + tooMany) / 2);
    if (keepsAll(input, middle, freeBytes)) kept = middle;
    else tooMany = middle;
  }
  return kept;
}

/** forward.cpp: how many of `layers` layers a pass of `tokens` keeps the activations of. */
export function keptLayers(kept: number, tokens: number, layers: number, kind: DeviceKind): number {
  if (tokens <= kept) return layers;
  return kind === 'cpu' ? Math.floor((layers * kept) / tokens) : 0;
}

/** @param kept tokens of the largest pass that keeps the activations of all layers */
function training(input: TrainingMemoryInput, batch: MicroBatch, kept: number): Items {
  const { model, dtype, kind, work } = input;
  const { shape } = model;
  const layers = shape.numLayers;
  const element = BYTES_PER_ELEMENT[dtype];
  // On a GPU, the largest pass that keeps its activations takes more than a larger one that does not.
  const rows = rowsOf(input, batch, work.loraDropout);
  const tokens = kind === 'cpu' || kept === 0 ? rows : Math.min(rows, kept);
  const keeping = keptLayers(kept, tokens, layers, kind);
  const recomputed = layers - keeping;
  const tape = tapeBytes(input) * tokens;
  const backward = backwardElements(shape) * tokens * element;
  const headMemory = headBytes(input, batch.completionTokens, true);
  const all = recomputed === 0;
  const layerMemory = backward + (all ? 0 : tape);
  return {
    'weights with the adapter': mergedBytes(input, work.loraDropout),
    [all ? 'activations of all layers' : `activations of ${keeping} of ${layers} layers`]: tape * keeping,
    [keeping === 0 ? "every layer's input (layers are recomputed)" : 'inputs of the other layers']:
      recomputed * tokens * shape.hiddenSize * element,
    // The head has given its memory back when backward begins.
    ...(headMemory > layerMemory
      ? { 'vocabulary chunk': headMemory }
      : { [all ? 'backward of one layer' : 'one layer: activations and backward']: layerMemory }),
  };
}

/** The plan of a run that samples nothing. */
export type TrainingMemory = Omit<MemoryPlan, 'kv' | 'evaluationKv'>;

/** What is free before the first phase. */
const freeFor = (input: TrainingMemoryInput): number =>
  Math.max(0, input.availableBytes - total(always(input)));

/**
 * Peak memory of training on given sequences.
 * @param largest the largest passes; `scoring` is null if nothing is scored
 * @param sampling the other phases of a run that samples
 */
export function planTrainingMemory(
  input: TrainingMemoryInput,
  largest: { training: MicroBatch; scoring: MicroBatch | null },
  sampling: Partial<Record<MemoryPhase, Items>> = {},
): TrainingMemory {
  const kept = mostKept(input, freeFor(input));
  const phases: Partial<Record<MemoryPhase, Items>> = {
    always: always(input),
    loading: loading(input),
    ...(largest.scoring !== null && { scoring: scoring(input, largest.scoring) }),
    training: training(input, largest.training, kept),
    ...sampling,
  };
  const phaseBytes = Object.fromEntries(PHASES.map((phase) => [phase, total(phases[phase] ?? {})])) as Record<
    MemoryPhase,
    number
  >;
  const peakPhase = PHASES.slice(1).reduce((a, b) => (phaseBytes[b] > phaseBytes[a] ? b : a));
  const items = PHASES.flatMap((phase) =>
    Object.entries(phases[phase] ?? {}).map(([name, bytes]) => ({ phase, name, bytes })),
  );
  return {
    items: items.filter((item) => item.bytes > 0),
    phaseBytes,
    peakBytes: phaseBytes.always + phaseBytes[peakPhase],
    peakPhase,
    keptTokens: kept,
    microBatchTokens: largest.training.tokens,
  };
}

/** Peak memory of a run of `work` on `model`. */
export function planMemory(input: MemoryInput): MemoryPlan {
  const { model, dtype, kind, work } = input;
  const budget = work.kvBytes ?? freeFor(input) * KV_SHARE[kind];
  const kvOf = (wanted: Parameters<typeof planKv>[2]): KvPlan =>
    planKv(model.shape, { bytesPerElement: BYTES_PER_ELEMENT[dtype], kind }, wanted, budget);
  const kv = work.served ? null : kvOf(work);
  const { evalProblems: prompts, evalMaxNewTokens: maxNewTokens } = work;
  const evaluationKv =
    prompts === 0
      ? null
      : kvOf({ ...work, promptsInFlight: prompts, prefillTokens: work.promptTokens, group: 1, maxNewTokens });
  const update = largestMicroBatch(work, work.updateSequences, work.fullestUpdateTokens);
  const batch = largestMicroBatch(work, work.prompts * work.group, work.fullestBatchTokens);
  const sampling = {
    ...(kv !== null && { rollout: decoding(input, kv, work.maxNewTokens) }),
    ...(evaluationKv !== null && { evaluation: decoding(input, evaluationKv, maxNewTokens) }),
  };
  const largest = { training: update, scoring: work.scoringPasses > 0 ? batch : null };
  const { keptTokens, microBatchTokens, ...peak } = planTrainingMemory(input, largest, sampling);
  return { ...peak, kv, evaluationKv, keptTokens, microBatchTokens };
}
