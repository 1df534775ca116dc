/**
 * Expected time on a GPU, from counted launches and bytes. The counts are those of the engine's own CUDA kernels
 * (native/cuda/kernels) with decoding in CUDA graphs. The share of the device's rates that each kind of work reaches
 * and the cost of a launch are assumptions that no card has confirmed; `scripts/gpu-check measure` measures them all.
 */
import { cacheReads, type SpeculativeStep } from './speculation';
import { sum } from '../base/statistics';
import type { KvCacheDtype, Quantization } from '../engine/types';
import {
  embeddingParameters,
  kvBytesPerToken,
  layerMatrixBytes,
  layerMatrixParameters,
  linearSizes,
  passSizes,
  prefillWork,
  widths,
  type Ceilings,
  type ModelShape,
  type PassOptions,
  type TrainSequence,
  type Work,
} from './cost';

/** Fractions of the device's rates. */
export interface GpuShares {
  /** Of the bandwidth, in products limited by reading their weights: up to a hundred rows. */
  products: number;
  /** Of the bandwidth, in the project's own kernels. */
  kernels: number;
  /** Of the matmul rate, in products of training, scoring and prefill. */
  matmul: number;
  /** Of the matmul rate, in attention in training and scoring. */
  attention: number;
  /** Of the rate of fp32 multiply-adds, in instructions of products straight from quantised weights. */
  cores: number;
}

export interface GpuCeilings extends Ceilings {
  /** fp32 without TF32, as CUDA cores compute it; left out where it is the matmul rate. */
  float32FlopsPerSecond?: number;
}

/**
 * Cards with GDDR memory, and those with HBM. `matmul`: 110 us for the 8.5 GFLOP that a token of Qwen3-1.7B takes
 * with recomputation, on an A6000. `attention`: libtorch's flash kernels were written for the older cards.
 */
const COMPUTING = { matmul: 0.5, attention: 0.5, cores: 0.65 };
export const GDDR_SHARES: GpuShares = { ...COMPUTING, products: 0.75, kernels: 0.85 };
export const HBM_SHARES: GpuShares = { ...COMPUTING, products: 0.6, kernels: 0.75, attention: 0.35 };
const HBM_BYTES_PER_SECOND = 1.5e12;

/** The assumed shares of a card with this bandwidth. */
export const gpuShares = ({ readBytesPerSecond }: Ceilings): GpuShares =>
  readBytesPerSecond >= HBM_BYTES_PER_SECOND ? HBM_SHARES : GDDR_SHARES;

/** Seconds. Assumed. */
const SMALL_KERNEL_IN_GRAPH = 1.6e-6;
/** By the library, where it is not left to the project's kernels. */
const LORA_PRODUCT_IN_GRAPH = 0.75 * 4e-6;
const ATTENTION_START = 3e-6;
const SAMPLER = 0.1e-3;
/** Where tokens are proposed, the host looks at every step's draws, and tells the card what to do next. */
const LOOK = 0.1e-3;
/** Rows that `SAMPLER` is for. */
const SAMPLER_ROWS = 16;
/** The head's product is the largest and gets closer to the bandwidth. */
const HEAD_PRODUCT_BONUS = 0.03;
/** Launches of a layer in decoding besides its four products, counted on the host. */
const SMALL_KERNELS_OF_LAYER = 6;

/**
 * Fused linears of a layer: their places in `linearSizes`, and the launches of their adapters' kernels; the second one
 * of gate and up takes the place of the activation's.
 */
const LORA_GROUPS = [
  { linears: [0, 1, 2], launches: 2 },
  { linears: [3], launches: 2 },
  { linears: [4, 5], launches: 1 },
  { linears: [6], launches: 2 },
] as const;
/** Multiply-adds up to which a fused linear's adapters go through these kernels (native/core/ops/gpu_lora.cpp). */
const LORA_KERNELS_MOST_PRODUCTS = 2 ** 23;

/** Launches per layer and decode step in a graph, with LoRA of a usual rank and few rows. */
export const GPU_LAYER_LAUNCH_SECONDS =
  (sum(LORA_GROUPS.map(({ launches }) => launches)) + SMALL_KERNELS_OF_LAYER) * SMALL_KERNEL_IN_GRAPH +
  ATTENTION_START;

/** The adapters of one layer, on all linears, in a decode step of `rows` sequences. */
function loraLayerSeconds(
  shape: ModelShape,
  rows: number,
  rank: number,
  readBytes: (bytes: number) => number,
  bytesPerElement: number,
): number {
  const sizes = linearSizes(shape).map(sum);
  return sum(
    LORA_GROUPS.map(({ linears, launches }) => {
      const parameters = rank * sum(linears.map((linear) => sizes[linear]!));
      return rows * parameters <= LORA_KERNELS_MOST_PRODUCTS
        ? launches * SMALL_KERNEL_IN_GRAPH + readBytes(parameters * bytesPerElement)
        : 2 * LORA_PRODUCT_IN_GRAPH;
    }),
  );
}

/**
 * Rows up to which decoding multiplies straight from the codes (native/core/matrix/gpu_quantised.cpp); more rows take
 * the library's product with the dequantised matrix.
 */
export const QUANTISED_PRODUCT_MOST_ROWS = 32;

/**
 * Instructions of that kernel for each weight (decision 0296): rows are taken in tiles of 16, the last one of 4 or 8;
 * 7.5 dequantise a weight for a tile, 16 multiply and add in 16 rows and 4.5 read them.
 */
function instructionsPerWeight(rows: number): number {
  const last = rows % 16;
  const tiles = [
    ...new Array<number>(Math.floor(rows / 16)).fill(16),
    ...(last === 0 ? [] : [[4, 8, 16].find((tile) => tile >= last)!]),
  ];
  return sum(tiles.map((tile) => 7.5 + ((16 + 4.5) / 16) * tile));
}

/** Dequantising all layers' matrices once: codes are read, the type that products take is written. */
const dequantisedBytes = (
  shape: ModelShape,
  bytesPerElement: number,
  quantization: Quantization | null,
): number =>
  quantization === null
    ? 0
    : layerMatrixBytes(shape, bytesPerElement, quantization) + layerMatrixBytes(shape, bytesPerElement);

/** The products with all layers' matrices in a decode step of `rows` sequences. */
function layerProductSeconds(
  shape: ModelShape,
  rows: number,
  { bytesPerElement, quantization = null }: PassOptions,
  { readBytesPerSecond, matmulFlopsPerSecond, float32FlopsPerSecond = matmulFlopsPerSecond }: GpuCeilings,
  shares: GpuShares,
): number {
  const weights = layerMatrixParameters(shape);
  const read = (bytes: number, share: number): number => bytes / readBytesPerSecond / share;
  if (quantization !== null && rows <= QUANTISED_PRODUCT_MOST_ROWS) {
    const codes = layerMatrixBytes(shape, bytesPerElement, quantization);
    const started = float32FlopsPerSecond / 2;
    return Math.max(
      read(codes, shares.products),
      (instructionsPerWeight(rows) * weights) / started / shares.cores,
    );
  }
  const launches = quantization === null ? 0 : shape.numLayers * LORA_GROUPS.length * SMALL_KERNEL_IN_GRAPH;
  return (
    launches +
    read(dequantisedBytes(shape, bytesPerElement, quantization), shares.kernels) +
    Math.max(
      read(layerMatrixBytes(shape, bytesPerElement), shares.products),
      (2 * rows * weights) / matmulFlopsPerSecond / shares.matmul,
    )
  );
}

export interface DecodeOptions extends PassOptions {
  kvCacheDtype?: KvCacheDtype;
  /** Where tokens are proposed: what a step computes of each sequence. */
  speculation?: SpeculativeStep | undefined;
}

/** One decode step of sequences that see `contextLengths` tokens. */
export function gpuDecodeStepSeconds(
  shape: ModelShape,
  contextLengths: readonly number[],
  options: DecodeOptions,
  ceilings: GpuCeilings,
  shares: GpuShares,
): number {
  const { bytesPerElement, loraRank, kvCacheDtype, speculation } = options;
  const { readBytesPerSecond: bandwidth, matmulFlopsPerSecond: rate } = ceilings;
  const rows = (speculation?.rows ?? 1) * contextLengths.length;
  const reads = speculation === undefined ? 1 : cacheReads(speculation, shape.numHeads / shape.numKvHeads);
  const layers = shape.numLayers;
  const kernel = (bytes: number): number => bytes / bandwidth / shares.kernels;
  const cache = sum(contextLengths) * kvBytesPerToken(shape, bytesPerElement, kvCacheDtype);
  const layer =
    layerProductSeconds(shape, rows, options, ceilings, shares) / layers +
    (loraRank === null ? 0 : loraLayerSeconds(shape, rows, loraRank, kernel, bytesPerElement)) +
    SMALL_KERNELS_OF_LAYER * SMALL_KERNEL_IN_GRAPH +
    kernel((reads * cache) / layers) +
    ATTENTION_START;
  const head = embeddingParameters(shape);
  const headSeconds = Math.max(
    (head * bytesPerElement) / bandwidth / (shares.products + HEAD_PRODUCT_BONUS),
    (2 * rows * head) / rate / shares.matmul,
  );
  const look = speculation === undefined ? 0 : LOOK;
  return layers * layer + headSeconds + SAMPLER * Math.max(1, rows / SAMPLER_ROWS) + look;
}

/** Elements that a layer's kernels besides the products read and write per token, forward and backward. */
export function gpuTrainingElements(shape: ModelShape, lora: boolean): { forward: number; backward: number } {
  const { D, F, q, kv } = widths(shape);
  // Per layer two additions to the residual stream (3 D each) and two norms (2 D each).
  const norms = 2 * (3 * D + 2 * D);
  const attention = 2 * q + 2 * kv;
  // Ragged sequences are copied to padded rows for attention, and back.
  const padding = 2 * (2 * q + 2 * kv);
  const forward = norms + 2 * (q + kv) + padding + attention + 3 * F;
  // Its inputs and outputs; libtorch sums dq in fp32 and dk and dv of every query head apart.
  const attentionBackward = 4 * q + 4 * kv + (4 * q + 4 * q);
  const backward = 2 * 4 * D + 3 * (q + kv) + 2 * kv + padding + attentionBackward + 5 * F;
  if (!lora) return { forward, backward };
  const outputs = sum(linearSizes(shape).map(([, output]) => output));
  const inputs = D + q + D + F; // linears that share an input read it once
  return {
    // A reads the input; B adds to what the base has written.
    forward: forward + inputs + 2 * outputs,
    // The output's gradient is read for the gradients of A and of B, and A adds to the input's.
    backward: backward + 2 * outputs + 3 * inputs,
  };
}

/** Bytes per logit: written in fp32, read twice, its probability written and read in bf16. */
const BYTES_PER_LOGIT = 4 + 2 * 4 + 2 + 2;

export interface PassSeconds {
  forward: number;
  /** A second forward through the layers, of a pass whose activations do not fit. */
  recomputation: number;
  backward: number;
}

/** A training pass over packed sequences, without its launches: milliseconds of a pass that takes a second. */
export function gpuPassSeconds(
  shape: ModelShape,
  sequences: readonly TrainSequence[],
  { bytesPerElement, loraRank, quantization = null }: PassOptions,
  { readBytesPerSecond, matmulFlopsPerSecond }: Ceilings,
  shares: GpuShares,
): PassSeconds {
  const sizes = passSizes(shape, sequences, loraRank);
  const { tokens, headTokens } = sizes;
  const products = (flops: number): number => flops / matmulFlopsPerSecond / shares.matmul;
  const kernels = (bytes: number): number => bytes / readBytesPerSecond / shares.kernels;
  const attention = sizes.attention / matmulFlopsPerSecond / shares.attention;
  const layerProducts = products(2 * tokens * sizes.layers);
  const adapters = products(2 * tokens * sizes.lora);
  const elements = gpuTrainingElements(shape, loraRank !== null);
  const moved = (perToken: number): number => kernels(perToken * tokens * shape.numLayers * bytesPerElement);
  // What a product reads of it is counted, too, although much of it hides behind the arithmetic.
  const dequantised = quantization === null ? 0 : layerMatrixBytes(shape, bytesPerElement);
  const dequantising = kernels(dequantisedBytes(shape, bytesPerElement, quantization) + dequantised);
  const head = products(2 * headTokens * sizes.head);
  const logits = kernels(headTokens * shape.vocabSize * BYTES_PER_LOGIT);
  const layers = layerProducts + dequantising + adapters + attention + moved(elements.forward);
  const weightGradients = loraRank === null ? layerProducts + head : 0;
  return {
    forward: layers + head + logits,
    recomputation: layers,
    backward:
      layerProducts +
      dequantising +
      weightGradients +
      2 * adapters +
      2.5 * attention +
      moved(elements.backward) +
      head,
  };
}

/** Prefill of a prompt. */
export function gpuPrefillSeconds(
  shape: ModelShape,
  promptTokens: number,
  { bytesPerElement, quantization = null }: PassOptions,
  { readBytesPerSecond, matmulFlopsPerSecond }: Ceilings,
  shares: GpuShares,
): number {
  const { flops, bytes } = prefillWork(shape, promptTokens, bytesPerElement);
  const dequantising = dequantisedBytes(shape, bytesPerElement, quantization);
  return (
    dequantising / readBytesPerSecond / shares.kernels +
    Math.max(bytes / readBytesPerSecond / shares.products, flops / matmulFlopsPerSecond / shares.matmul)
  );
}

/** Work of the project's own kernels. */
export const gpuKernelSeconds = ({ bytes }: Work, ceilings: Ceilings, shares: GpuShares): number =>
  bytes / ceilings.readBytesPerSecond / shares.kernels;
