/**
 * Expected time on a GPU, from counted launches and bytes. The counts are those of the engine's own CUDA kernels
 * (native/cuda/kernels) with decoding in CUDA graphs. The shares of the device's rates that each kind of work
 * reaches, and the cost of a launch, are assumptions: no card has confirmed one of them. `scripts/gpu-check
 * measure` measures every one.
 */
import {
  attentionFlopsPerPair,
  embeddingParameters,
  kvBytesPerToken,
  layerMatrixParameters,
  linearSizes,
  loraParameters,
  type Ceilings,
  type ModelShape,
  type TrainSequence,
  type Work,
} from './cost';

/** Fractions of the device's rates. */
export interface GpuShares {
  /** The bandwidth's, for products that wait for their weights, at up to a hundred rows. */
  products: number;
  /** The bandwidth's, for the project's own kernels. */
  kernels: number;
  /** The matmul rate's, for products of training, scoring and prefill. */
  matmul: number;
  /** The matmul rate's, for attention in training and scoring. */
  attention: number;
}

/**
 * Cards with GDDR memory, and those with HBM. `matmul`: 110 us for the 8.5 GFLOP that a token of Qwen3-1.7B takes
 * with recomputation, on an A6000. `attention`: libtorch's flash kernels were written for the older cards.
 */
export const GDDR_SHARES: GpuShares = { products: 0.75, kernels: 0.85, matmul: 0.5, attention: 0.5 };
export const HBM_SHARES: GpuShares = { products: 0.6, kernels: 0.75, matmul: 0.5, attention: 0.35 };
const HBM_BYTES_PER_SECOND = 1.5e12;

/** The assumed shares of a card with this bandwidth. */
export const gpuShares = ({ readBytesPerSecond }: Ceilings): GpuShares =>
  readBytesPerSecond >= HBM_BYTES_PER_SECOND ? HBM_SHARES : GDDR_SHARES;

/** Seconds. Assumed. */
const SMALL_KERNEL_IN_GRAPH = 1.6e-6;
const LORA_PRODUCT_IN_GRAPH = 0.75 * 4e-6;
const ATTENTION_START = 3e-6;
const SAMPLER = 0.1e-3;
/** Rows that the sampler's time is for. */
const SAMPLER_ROWS = 16;
/** The head's product is the largest, and gets nearer to the bandwidth. */
const HEAD_PRODUCT_BONUS = 0.03;
/** Launches of a layer in decoding besides its four products: counted on the host. */
const SMALL_KERNELS_OF_LAYER = 6;
const LORA_PRODUCTS_OF_LAYER = 8;

export interface GpuOptions {
  bytesPerElement: number;
  loraRank: number | null;
}

/** Launches of a layer and decode step in a graph, with LoRA. */
export const GPU_LAYER_LAUNCH_SECONDS =
  LORA_PRODUCTS_OF_LAYER * LORA_PRODUCT_IN_GRAPH +
  SMALL_KERNELS_OF_LAYER * SMALL_KERNEL_IN_GRAPH +
  ATTENTION_START;

const widths = (shape: ModelShape) => ({
  D: shape.hiddenSize,
  F: shape.intermediateSize,
  q: shape.numHeads * shape.headDim,
  kv: shape.numKvHeads * shape.headDim,
});

/** One decode step of sequences that see `contextLengths` tokens. */
export function gpuDecodeStepSeconds(
  shape: ModelShape,
  contextLengths: readonly number[],
  { bytesPerElement, loraRank }: GpuOptions,
  { readBytesPerSecond: bandwidth, matmulFlopsPerSecond: rate }: Ceilings,
  shares: GpuShares,
): number {
  const rows = contextLengths.length;
  const context = contextLengths.reduce((sum, length) => sum + length, 0);
  const product = (parameters: number, share: number): number =>
    Math.max(
      (parameters * bytesPerElement) / bandwidth / share,
      (2 * rows * parameters) / rate / shares.matmul,
    );
  const layers = shape.numLayers;
  const layer =
    product(layerMatrixParameters(shape) / layers, shares.products) +
    (loraRank === null ? 0 : LORA_PRODUCTS_OF_LAYER * LORA_PRODUCT_IN_GRAPH) +
    SMALL_KERNELS_OF_LAYER * SMALL_KERNEL_IN_GRAPH +
    (context * kvBytesPerToken(shape, bytesPerElement)) / layers / bandwidth / shares.kernels +
    ATTENTION_START;
  const head = product(embeddingParameters(shape), shares.products + HEAD_PRODUCT_BONUS);
  return layers * layer + head + SAMPLER * Math.max(1, rows / SAMPLER_ROWS);
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
  const outputs = linearSizes(shape).reduce((sum, [, o]) => sum + o, 0);
  const inputs = D + q + D + F; // linears that share an input read it once
  return {
    // A reads the input; B adds to what the base has written.
    forward: forward + inputs + 2 * outputs,
    // The output's gradient is read for the gradients of A and of B, and A adds to the input's.
    backward: backward + 2 * outputs + 3 * inputs,
  };
}

const causalPairs = (tokens: number): number => (tokens * (tokens + 1)) / 2;

/** Bytes per logit: written in fp32, read twice, its probability written and read in bf16. */
const BYTES_PER_LOGIT = 4 + 2 * 4 + 2 + 2;

export interface PassSeconds {
  forward: number;
  /** A second forward through the layers, of a pass whose activations do not fit. */
  recomputation: number;
  backward: number;
}

/** A training pass over packed sequences. Launches are left out: milliseconds a pass, which takes a second. */
export function gpuPassSeconds(
  shape: ModelShape,
  sequences: readonly TrainSequence[],
  { bytesPerElement, loraRank }: GpuOptions,
  { readBytesPerSecond, matmulFlopsPerSecond }: Ceilings,
  shares: GpuShares,
): PassSeconds {
  const tokens = sequences.reduce((sum, s) => sum + s.tokens, 0);
  const headTokens = sequences.reduce((sum, s) => sum + s.completionTokens, 0);
  const pairs = sequences.reduce((sum, s) => sum + causalPairs(s.tokens), 0);
  const products = (flops: number): number => flops / matmulFlopsPerSecond / shares.matmul;
  const kernels = (bytes: number): number => bytes / readBytesPerSecond / shares.kernels;
  const attention = (pairs * attentionFlopsPerPair(shape)) / matmulFlopsPerSecond / shares.attention;
  const layerProducts = products(2 * tokens * layerMatrixParameters(shape));
  const lora = loraRank === null ? 0 : loraParameters(shape, loraRank);
  const adapters = products(2 * tokens * lora);
  const elements = gpuTrainingElements(shape, loraRank !== null);
  const moved = (perToken: number): number => kernels(perToken * tokens * shape.numLayers * bytesPerElement);
  const head = products(2 * headTokens * embeddingParameters(shape));
  const logits = kernels(headTokens * shape.vocabSize * BYTES_PER_LOGIT);
  const layers = layerProducts + adapters + attention + moved(elements.forward);
  const weightGradients = loraRank === null ? layerProducts + head : 0;
  return {
    forward: layers + head + logits,
    recomputation: layers,
    backward:
      layerProducts + weightGradients + 2 * adapters + 2.5 * attention + moved(elements.backward) + head,
  };
}

/** Work that is products over many rows or, with few, waits for the weights. */
export const gpuProductSeconds = (
  { flops, bytes }: Work,
  { readBytesPerSecond, matmulFlopsPerSecond }: Ceilings,
  shares: GpuShares,
): number =>
  Math.max(bytes / readBytesPerSecond / shares.products, flops / matmulFlopsPerSecond / shares.matmul);

/** Work of the project's own kernels. */
export const gpuKernelSeconds = ({ bytes }: Work, ceilings: Ceilings, shares: GpuShares): number =>
  bytes / ceilings.readBytesPerSecond / shares.kernels;
