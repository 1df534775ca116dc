/**
 * What a dense decoder costs: parameters, bytes read, floating-point operations and the elements of the engine's
 * intermediate tensors, from its shape alone. The product of an [m, k] and a [k, n] matrix counts 2 m k n FLOPs;
 * norms, RoPE, SiLU and softmax are ignored (under 1%). The floor of a piece of work is the larger of its bytes over
 * the read bandwidth and its FLOPs over the matmul rate.
 */
import { maximum, sum } from '../base/statistics';
import type { NativeModelSpec } from '../engine/binding';
import {
  TARGET_MODULES,
  type Dtype,
  type KvCacheDtype,
  type LoraMatrix,
  type MachineCeilings as Ceilings,
  type Quantization,
  type TargetModule,
} from '../engine/types';

export type { Ceilings };

/** What the cost of a model depends on. */
export type ModelShape = Omit<NativeModelSpec, 'maxPositions' | 'rmsNormEps' | 'ropeTheta' | 'ropeScaling'>;

export interface Work {
  flops: number;
  bytes: number;
}

export type DeviceKind = 'cpu' | 'cuda';

export const BYTES_PER_ELEMENT = { float64: 8, float32: 4, bfloat16: 2 } as const;

/** Widths of a layer's activations: the residual stream, the MLP, queries, keys (or values), and q|k|v. */
export function widths(shape: ModelShape) {
  const [q, kv] = [shape.numHeads * shape.headDim, shape.numKvHeads * shape.headDim];
  return { D: shape.hiddenSize, F: shape.intermediateSize, q, kv, qkv: q + 2 * kv };
}

/** Inputs and outputs of a layer's seven linears, in the order of `TARGET_MODULES`. */
export function linearSizes(shape: ModelShape): [inputs: number, outputs: number][] {
  const { D, F, q, kv } = widths(shape);
  return [
    [D, q],
    [D, kv],
    [D, kv],
    [q, D],
    [D, F],
    [D, F],
    [F, D],
  ];
}

/** Elements of all layers' matrices; each is read, and multiplied by, once per token. */
export function layerMatrixParameters(shape: ModelShape): number {
  return shape.numLayers * sum(linearSizes(shape).map(([inputs, outputs]) => inputs * outputs));
}

/** nf4: weights that share a scale, and scales that share a scale of their own (bitsandbytes' double quantisation). */
const NF4_BLOCK = 64;
const NF4_GROUP = 256;

/** Bytes of one linear with its scales, as native/core/matrix keeps it. */
function linearBytes(
  [inputs, outputs]: readonly [number, number],
  bytesPerElement: number,
  quantization: Quantization | null,
): number {
  const weights = inputs * outputs;
  if (quantization === null) return weights * bytesPerElement;
  // A scale for each row, in fp32.
  if (quantization === 'int8') return weights + 4 * outputs;
  // Half a byte for each weight, one for each scale, in fp32 the scales of scales and one offset.
  const blocks = weights / NF4_BLOCK;
  return weights / 2 + blocks + 4 * Math.ceil(blocks / NF4_GROUP) + 4;
}

/** Whether every linear's inputs are whole blocks, so that no block spans two rows. */
export const fitsNf4 = (shape: ModelShape): boolean =>
  linearSizes(shape).every(([inputs]) => inputs % NF4_BLOCK === 0);

/** Bytes of all layers' matrices. */
export const layerMatrixBytes = (
  shape: ModelShape,
  bytesPerElement: number,
  quantization: Quantization | null = null,
): number =>
  shape.numLayers * sum(linearSizes(shape).map((sizes) => linearBytes(sizes, bytesPerElement, quantization)));

export const largestLinearElements = (shape: ModelShape): number =>
  maximum(linearSizes(shape).map(([inputs, outputs]) => inputs * outputs));

/** Elements of the largest matrix of a layer, with linears that share an input in one: dequantised on a GPU. */
export function largestMatrixElements(shape: ModelShape): number {
  const { D, F, q, qkv } = widths(shape);
  return D * Math.max(qkv, q, 2 * F);
}

export const embeddingParameters = ({ vocabSize, hiddenSize }: ModelShape): number => vocabSize * hiddenSize;

/** Elements of all norms and biases. */
export function vectorParameters(shape: ModelShape): number {
  const { hiddenSize: D, headDim: K, numHeads: H, numKvHeads: J } = shape;
  const norms = 2 * D + (shape.qkNorm ? 2 * K : 0);
  const biases = shape.qkvBias ? (H + 2 * J) * K : 0;
  return shape.numLayers * (norms + biases) + D;
}

export function parameterCount(shape: ModelShape): number {
  const embeddings = embeddingParameters(shape) * (shape.tieWordEmbeddings ? 1 : 2);
  return layerMatrixParameters(shape) + embeddings + vectorParameters(shape);
}

/** Bytes of all weights. */
export const baseBytes = (
  shape: ModelShape,
  bytesPerElement: number,
  quantization: Quantization | null = null,
): number =>
  layerMatrixBytes(shape, bytesPerElement, quantization) +
  (parameterCount(shape) - layerMatrixParameters(shape)) * bytesPerElement;

/** A linear that LoRA adapts. */
export type Adapted = Pick<LoraMatrix, 'layer' | 'module' | 'rank'>;

/** The linears `targets` of every layer, with pairs of `rank`. */
export const adaptedEverywhere = (
  { numLayers }: ModelShape,
  rank: number,
  targets: readonly TargetModule[],
): Adapted[] =>
  Array.from({ length: numLayers }, (_, layer) => targets.map((module) => ({ layer, module, rank }))).flat();

/** Parameters of the LoRA pairs of these linears. */
export function pairParameters(shape: ModelShape, adapted: readonly Adapted[]): number {
  const sizes = linearSizes(shape).map(sum);
  return sum(adapted.map(({ module, rank }) => rank * sizes[TARGET_MODULES.indexOf(module)]!));
}

/** Parameters of LoRA pairs of `rank` on all linears. */
export const loraParameters = (shape: ModelShape, rank: number): number =>
  rank * shape.numLayers * sum(linearSizes(shape).map(sum));

/** Weights read by one decode step: layers, norms, biases and head, and single rows of an untied embedding. */
export function decodeWeightBytes(
  shape: ModelShape,
  bytesPerElement: number,
  quantization: Quantization | null = null,
): number {
  const others = embeddingParameters(shape) + vectorParameters(shape);
  return layerMatrixBytes(shape, bytesPerElement, quantization) + others * bytesPerElement;
}

/** Keys and values of one token in all layers. In int8 each head's have a scale in fp32. */
export function kvBytesPerToken(
  { numLayers, numKvHeads, headDim }: ModelShape,
  bytesPerElement: number,
  kvCacheDtype: KvCacheDtype = 'auto',
): number {
  const headBytes = kvCacheDtype === 'int8' ? headDim + 4 : headDim * bytesPerElement;
  return 2 * numLayers * numKvHeads * headBytes;
}

/** FLOPs of one token's pass through the layers and the head, without attention. */
export function forwardFlopsPerToken(shape: ModelShape): number {
  return 2 * (layerMatrixParameters(shape) + embeddingParameters(shape));
}

/** FLOPs of attention per pair of a query token and a visible key token, over all heads and layers. */
export function attentionFlopsPerPair(shape: ModelShape): number {
  return 4 * shape.numHeads * shape.headDim * shape.numLayers;
}

/** Query-key pairs of causal attention over `tokens`. */
const causalPairs = (tokens: number): number => (tokens * (tokens + 1)) / 2;

/** One decode step; `contextLengths` has the tokens that each sequence's new token sees, itself included. */
export function decodeStepWork(
  shape: ModelShape,
  contextLengths: readonly number[],
  options: {
    bytesPerElement: number;
    loraRank?: number | null;
    quantization?: Quantization | null;
    kvCacheDtype?: KvCacheDtype;
    /** Tokens that are computed for each sequence. Default 1. */
    rows?: number | undefined;
  },
): Work {
  const { bytesPerElement, quantization, kvCacheDtype, rows = 1 } = options;
  const context = sum(contextLengths);
  const lora = options.loraRank ? loraParameters(shape, options.loraRank) : 0;
  return {
    flops:
      rows *
      (contextLengths.length * (forwardFlopsPerToken(shape) + 2 * lora) +
        context * attentionFlopsPerPair(shape)),
    // LoRA masters are fp32 whatever the type of the base.
    bytes:
      decodeWeightBytes(shape, bytesPerElement, quantization) +
      context * kvBytesPerToken(shape, bytesPerElement, kvCacheDtype) +
      lora * 4,
  };
}

/** Prefill of one prompt: all tokens through the layers, only the last one through the head. */
export function prefillWork(
  shape: ModelShape,
  promptTokens: number,
  bytesPerElement: number,
  quantization: Quantization | null = null,
): Work {
  return {
    flops:
      2 * (promptTokens * layerMatrixParameters(shape) + embeddingParameters(shape)) +
      causalPairs(promptTokens) * attentionFlopsPerPair(shape),
    bytes: decodeWeightBytes(shape, bytesPerElement, quantization),
  };
}

export interface TrainSequence {
  tokens: number;
  /** Tokens with a log-prob; only these pass through the head. */
  completionTokens: number;
  /** Tokens of its prompt that an earlier sequence of the pass computes; default 0. */
  sharedTokens?: number;
}

/** small_attention.cpp: tokens of the longest sequence whose prompt is computed once for all its completions. */
export const LONGEST_SHARING: Record<Dtype, number> = { float32: 512, float64: 512, bfloat16: 4096 };

/** Whether a pass over sequences of at most `longest` tokens computes the prompt of a group once (decision 164). */
export const sharesPrompts = (pass: {
  kind: DeviceKind;
  dtype: Dtype;
  longest: number;
  dropout: number;
}): boolean => pass.kind === 'cpu' && pass.longest <= LONGEST_SHARING[pass.dtype] && pass.dropout === 0;

/** Tokens that a pass computes. */
export const passRows = (sequences: readonly TrainSequence[]): number =>
  sum(sequences.map(({ tokens, sharedTokens = 0 }) => tokens - sharedTokens));

const passPairs = (sequences: readonly TrainSequence[]): number =>
  sum(sequences.map(({ tokens, sharedTokens = 0 }) => causalPairs(tokens) - causalPairs(sharedTokens)));

export interface PassOptions {
  bytesPerElement: number;
  quantization?: Quantization | null;
  /** null: all weights are trained. */
  loraRank: number | null;
}

/** What a pass over packed sequences multiplies. Parameters are those that a token, or a token of the head, meets. */
export const passSizes = (
  shape: ModelShape,
  sequences: readonly TrainSequence[],
  loraRank: number | null,
) => ({
  tokens: passRows(sequences),
  headTokens: sum(sequences.map(({ completionTokens }) => completionTokens)),
  attention: passPairs(sequences) * attentionFlopsPerPair(shape),
  layers: layerMatrixParameters(shape),
  head: embeddingParameters(shape),
  lora: loraRank === null ? 0 : loraParameters(shape, loraRank),
});

/**
 * Forward and backward over packed sequences. With LoRA the base needs only input gradients. `recompute` adds
 * a second forward through the layers, as in activation checkpointing; the floor is computed without it.
 */
export function trainWork(
  shape: ModelShape,
  sequences: readonly TrainSequence[],
  options: PassOptions & { recompute: boolean },
): Work {
  const { bytesPerElement, quantization } = options;
  const { tokens, headTokens, attention, layers, head, lora } = passSizes(shape, sequences, options.loraRank);
  const full = options.loraRank === null;
  const forward = 2 * tokens * layers + attention;
  const passesOverWeights = options.recompute ? 3 : 2;
  return {
    flops:
      forward * (options.recompute ? 2 : 1) +
      2 * tokens * layers * (full ? 2 : 1) +
      2.5 * attention +
      2 * headTokens * head * (full ? 3 : 2) +
      6 * tokens * lora,
    bytes:
      passesOverWeights * layerMatrixBytes(shape, bytesPerElement, quantization) + 2 * head * bytesPerElement,
  };
}

/** One forward pass over packed sequences for the log-probs of their completion tokens. */
export function scoreWork(
  shape: ModelShape,
  sequences: readonly TrainSequence[],
  options: PassOptions,
): Work {
  const { tokens, headTokens, attention, layers, head, lora } = passSizes(shape, sequences, options.loraRank);
  return {
    flops: 2 * tokens * (layers + lora) + attention + 2 * headTokens * head,
    bytes:
      layerMatrixBytes(shape, options.bytesPerElement, options.quantization) + head * options.bytesPerElement,
  };
}

/**
 * AdamW over `parameters` fp32 masters: the gradient is read for its norm and for the update; value and both
 * moments are read and written. The arithmetic is negligible.
 */
export function optimizerWork(parameters: number): Work {
  return { flops: 0, bytes: 8 * 4 * parameters };
}

/** Minimum seconds the machine needs for this work. */
export function floorSeconds(work: Work, ceilings: Ceilings): number {
  return Math.max(work.bytes / ceilings.readBytesPerSecond, work.flops / ceilings.matmulFlopsPerSecond);
}

export interface RolloutPlan {
  prompts: number;
  promptTokens: number;
  samplesPerPrompt: number;
  newTokens: number;
  /** Maximum sequences decoded together. */
  slots: number;
}

/**
 * Floor of a rollout of fixed lengths: each prompt is prefilled once and all sequences advance together, in
 * waves of `slots`. The first new token comes from the prefill, so a sequence of n new tokens takes n - 1
 * decode steps.
 */
export function rolloutFloorSeconds(
  shape: ModelShape,
  plan: RolloutPlan,
  ceilings: Ceilings,
  options: { bytesPerElement: number; loraRank?: number | null; kvCacheDtype?: KvCacheDtype },
): number {
  let seconds =
    plan.prompts * floorSeconds(prefillWork(shape, plan.promptTokens, options.bytesPerElement), ceilings);
  for (let left = plan.prompts * plan.samplesPerPrompt; left > 0; left -= plan.slots) {
    const rows = Math.min(left, plan.slots);
    for (let step = 1; step < plan.newTokens; step++) {
      const contexts = new Array<number>(rows).fill(plan.promptTokens + step);
      seconds += floorSeconds(decodeStepWork(shape, contexts, options), ceilings);
    }
  }
  return seconds;
}

/**
 * Elements per token that one layer keeps for its backward (layer.cpp, `layerTapeBytes`): the residual stream
 * twice and its norms, q|k|v raw and rotated, the attention output twice, gate|up and their product.
 */
export function tapeElements(shape: ModelShape): number {
  const { D, F, q, qkv } = widths(shape);
  return 4 * D + qkv + q + 3 * F + attentionElements(shape);
}

/** The part of them that attention reads and writes: q|k|v rotated and the output. */
export function attentionElements(shape: ModelShape): number {
  const { q, qkv } = widths(shape);
  return qkv + q;
}

/**
 * Elements per token of the gradients alive at the widest point of a layer's backward (layer.cpp, inside
 * attention): those of the activation and of gate|up, four residual streams, the attention output twice,
 * q|k|v three times.
 */
export function backwardElements(shape: ModelShape): number {
  const { D, F, q, qkv } = widths(shape);
  return 3 * F + 4 * D + 2 * q + 3 * qkv;
}

/** Linears that share an input, as indices into `TARGET_MODULES`. */
const GROUPS = [[0, 1, 2], [3], [4, 5], [6]];

/**
 * The most elements of the adapter as decoding uses it (adapters.cpp): A and B in the base's type while it is made,
 * and for each group of linears one matrix with all B side by side.
 */
export function decodeAdapterElements(shape: ModelShape, adapted: readonly Adapted[]): number {
  const sizes = linearSizes(shape);
  const columnsOf = (module: TargetModule): number => {
    const group = GROUPS.find((indices) => indices.includes(TARGET_MODULES.indexOf(module)))!;
    return sum(group.map((i) => sizes[i]![1]));
  };
  const side = sum(adapted.map(({ module, rank }) => rank * columnsOf(module)));
  return pairParameters(shape, adapted) + side;
}
