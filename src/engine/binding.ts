/**
 * The native boundary as types, and the only file that loads the addon. What callers see as it crosses the boundary is in
 * `types.ts`.
 *
 * Every value is copied across; no tensor memory is shared but by `gradientSums` and `lendShard`. Flat arrays come with offsets: the ids of
 * sequence b are `ids[offsets[b] .. offsets[b + 1])`, and "per token" arrays hold one number per completion
 * token (from `promptLengths[b]` on), sequences end to end. Seeds are unsigned 64-bit.
 */
import { loadAddonFile } from '../base/addon';
import type {
  GeneratedSequence,
  GenerateProgress,
  GenerateRequest,
  GenerateStats,
  LoraMatrix,
  LoraOptions,
  MachineCeilings,
  MergedMatrix,
  MemoryReport,
  Moment,
  PackedSequences,
  SamplingOptions,
  Shard,
  StepResult,
  TokenValues,
} from './types';

export type Dtype = 'float32' | 'bfloat16' | 'float64';

/** How the layers' linear weights are kept: in 4 bits as QLoRA keeps them, or in 8. */
export type Quantization = 'nf4' | 'int8';

export const NATIVE_ERROR_CODES = [
  'BAD_ARGUMENT',
  'BAD_SHAPE',
  'BAD_FILE',
  'OUT_OF_MEMORY',
  'NOT_FINITE',
  'DISPOSED',
  'CANCELLED',
  'ENGINE_BUSY',
  'DEVICE',
  'LOAD_FAILED',
  'INTERNAL',
] as const;
export type ErrorCodeName = (typeof NATIVE_ERROR_CODES)[number];

/** Handles are small integers that belong to one native engine. */
export type ModelId = number & { readonly __model: unique symbol };
export type PolicyId = number & { readonly __policy: unique symbol };

/** How rotary frequencies are stretched beyond pre-training's positions; see native/core/ops/rope.cpp. */
export type NativeRopeScaling =
  | {
      kind: 'llama3';
      factor: number;
      originalPositions: number;
      lowFrequencyFactor: number;
      highFrequencyFactor: number;
    }
  | {
      kind: 'yarn';
      factor: number;
      originalPositions: number;
      betaFast: number;
      betaSlow: number;
      /** The bounds of the ramp between kept and divided frequencies are rounded to whole ones. */
      truncate: boolean;
      /** Factor of cosine and sine. */
      attentionFactor: number;
    };

/** Everything that determines a model's weights and how to compute with them; see native/core/model/model.h. */
export interface NativeModelSpec {
  vocabSize: number;
  hiddenSize: number;
  intermediateSize: number;
  numLayers: number;
  numHeads: number;
  numKvHeads: number;
  headDim: number;
  maxPositions: number;
  rmsNormEps: number;
  ropeTheta: number;
  ropeScaling: NativeRopeScaling | null;
  tieWordEmbeddings: boolean;
  /** q, k and v have a bias. */
  qkvBias: boolean;
  /** Every query and key head is normed before it is rotated. */
  qkNorm: boolean;
}

export interface NativeModelInfo extends Omit<NativeModelSpec, 'rmsNormEps' | 'ropeTheta' | 'ropeScaling'> {
  model: ModelId;
  dtype: Dtype;
  /** Of the layers' linear weights; null: they are in `dtype`, as embedding, head and norms always are. */
  quantization: Quantization | null;
  device: string;
  parameterCount: number;
  /** Of the weights as they lie in memory. */
  bytes: number;
}

/** A tensor in a file, as the file's safetensors header describes it. */
export interface NativeStoredTensor {
  name: string;
  /** Index into the table's `files`. */
  file: number;
  /** As safetensors names it: `BF16`, `F32`, ...; or ggml's `Q8_0`. */
  dtype: string;
  shape: number[];
  /** Offset in bytes from the start of the file. */
  begin: number;
  end: number;
  /**
   * The rows are of so many heads, and those of a head alternate between its first and second half, as ggml rotates
   * Llama's queries and keys. Absent: rows are in the model's order.
   */
  heads?: number;
}

/** Tensors to read. The files stay open for the duration of the call; paths are for messages. */
export interface NativeTensorTable {
  files: { descriptor: number; path: string }[];
  tensors: NativeStoredTensor[];
}

export interface NativePolicyOptions extends Required<Omit<LoraOptions, 'kind' | 'targetModules'>> {
  kind: 'lora' | 'full';
  shard?: Shard;
  targets: string[];
  /** What is adapted; empty: `targets` in every layer, all with `rank` and `alpha`. */
  matrices: LoraMatrix[];
}

export interface NativePolicyInfo extends Pick<
  NativePolicyOptions,
  'kind' | 'rank' | 'alpha' | 'rslora' | 'targets'
> {
  policy: PolicyId;
  parameterCount: number;
  /** All linears that are adapted, by layer; empty for a full policy. */
  matrices: LoraMatrix[];
  /** Where each shard begins in the parameters end to end, and where the last one ends. */
  shardOffsets: number[];
}

export interface NativeGenerateRequest extends Required<Omit<GenerateRequest, 'sampling' | 'policy'>> {
  sampling: SamplingOptions;
  policy: PolicyId | null;
}

/** What an open decoder tells; a request's number is its place among all that were added, refused ones included. */
export type NativeDecoderEvent =
  /** There is room for it: requests are being taken. */
  | { kind: 'open' }
  | NativeNewTokens
  /** A sequence has ended; all its tokens came before. */
  | { kind: 'sequence'; sequence: GeneratedSequence }
  /** The request is not allowed. */
  | { kind: 'refused'; request: number; error: Error };

/** Tokens that a sequence has made since the last event of this kind. */
export interface NativeNewTokens extends Pick<GeneratedSequence, 'request' | 'sample' | 'ids' | 'logprobs'> {
  kind: 'tokens';
}

export interface NativeDeviceInfo {
  device: string;
  name: string;
  threads: number;
  totalBytes: number;
  freeBytes: number;
}

/** The families of the CUDA kernels, each used or left to libtorch's operations as a whole (kernels/gpu/families.h). */
export const KERNEL_FAMILIES = [
  'decode',
  'int8_cache',
  'graphs',
  'training',
  'adamw',
  'dropout',
  'quantised',
] as const;
export type KernelFamily = (typeof KERNEL_FAMILIES)[number];

/** What decoding keeps keys and values in: auto is the model's type, int8 has a scale per token and head. */
export type KvCacheDtype = 'auto' | 'int8';

/** How sequences are decoded together. */
export interface NativeDecoding {
  maxSlots: number;
  /** 0: a share of the free memory. */
  kvBytes: number;
  kvCacheDtype: KvCacheDtype;
  /** 0: none. */
  numSpeculativeTokens: number;
}

/** The file of the CUDA kernels in use, and the card they run on. */
export interface NativeKernelFacts {
  file: string;
  card: string;
  /** Tells it from others of its kind; empty if the driver does not. */
  cardId: string;
  /** Version; empty if unknown. */
  driver: string;
}

/** One comparison of the self-check; see native/core/selfcheck/selfcheck.h. */
export interface NativeKernelFigure {
  kernel: string;
  family: KernelFamily;
  error: number;
  allowed: number;
  /** What is wrong, to follow the kernel's name; empty: nothing. */
  fault: string;
}

export type TensorTable = Record<string, { shape: number[]; data: Float64Array }>;

/** `job` identifies a long call for `cancel(job)`; the caller chooses the numbers, unique per engine. */
export interface NativeEngine {
  deviceInfo(): NativeDeviceInfo;
  loadModel(args: {
    spec: NativeModelSpec;
    weights: NativeTensorTable;
    dtype: Dtype;
    quantization: Quantization | null;
    job: number;
  }): Promise<NativeModelInfo>;
  /** null where no CUDA kernels are in use. */
  kernelFacts(args: Record<string, never>): Promise<NativeKernelFacts | null>;
  /** Compares the kernels with libtorch's operations; needs no model. */
  checkKernels(args: {
    spec: NativeModelSpec;
    dtype: Dtype;
    quantization: Quantization | null;
  }): Promise<NativeKernelFigure[]>;
  /** From now on libtorch's operations do a family's work, because of `why`; if that is empty, its kernels do. True: they did before. */
  leaveOutKernels(args: { model: ModelId; family: KernelFamily; why: string }): Promise<boolean>;
  createPolicy(args: NativePolicyOptions & { model: ModelId }): Promise<NativePolicyInfo>;
  /** Creates a LoRA with the values in `tensors`, under PEFT's names. */
  loadAdapter(args: {
    model: ModelId;
    options: NativePolicyOptions;
    tensors: NativeTensorTable;
  }): Promise<NativePolicyInfo>;
  generate(
    args: {
      model: ModelId;
      requests: NativeGenerateRequest[];
      /** Absent: every sequence is decoded to its end. */
      completeGroups?: Int32Array;
      job: number;
      /** Milliseconds between two calls of `onProgress`; read only with it. */
      progressEveryMs?: number;
    } & NativeDecoding,
    onSequence: (sequence: GeneratedSequence) => void,
    onProgress?: (progress: GenerateProgress) => void,
  ): Promise<GenerateStats>;
  /** One call until the decoder is closed and has answered what was added; other calls wait for it. */
  openDecoder(
    args: {
      model: ModelId;
      /** That requests may name. */
      policies: (PolicyId | null)[];
      /** Most of a request: prompt and new tokens. */
      positions: number;
      /** For the caches of ended sequences, which later prompts may continue. */
      keepBytes: number;
      job: number;
    } & NativeDecoding,
    onEvent: (event: NativeDecoderEvent) => void,
  ): Promise<GenerateStats>;
  /** These three name the job that opened the decoder, and throw DISPOSED once it has ended. */
  addRequests(args: { job: number; requests: NativeGenerateRequest[]; streams: boolean }): void;
  cancelRequest(args: { job: number; request: number }): void;
  closeDecoder(args: { job: number }): void;
  score(
    args: PackedSequences & {
      model: ModelId;
      policy: PolicyId | null;
      temperature: number;
      job: number;
    },
  ): Promise<TokenValues>;
  /** Like `score`, and keeps in the policy what `backward` needs, replacing what an earlier call kept. */
  forward(
    args: PackedSequences & {
      policy: PolicyId;
      temperature: number;
      dropoutSeed: bigint | null;
      job: number;
    },
  ): Promise<TokenValues>;
  /** Adds the gradient of sum(dLogprobs * logprobs) of the last `forward`, and drops what that kept. */
  backward(args: { policy: PolicyId; dLogprobs: Float64Array; job: number }): Promise<void>;
  step(args: {
    policy: PolicyId;
    learningRate: number;
    weightDecay: number;
    maxGradNorm: number;
  }): Promise<StepResult>;
  zeroGradients(args: { policy: PolicyId }): Promise<void>;
  /** Copies of the accumulated gradients by parameter name; for tests and diagnostics. */
  gradients(args: { policy: PolicyId }): Promise<TensorTable>;
  /**
   * Fills the array that the policy's first call gave, over native memory that lives as long as the array: the one
   * exception to copying. Later calls give nothing.
   */
  gradientSums(args: { policy: PolicyId }): Promise<Float64Array | Float32Array | undefined>;
  /** Gives the same array in the same way. */
  lendShard(args: {
    policy: PolicyId;
    what: 'weights' | Moment;
  }): Promise<Float64Array | Float32Array | undefined>;
  takeWeights(args: { policy: PolicyId }): Promise<void>;
  savePolicy(args: { policy: PolicyId; path: string; dtype: Dtype | null }): Promise<void>;
  saveOptimizer(args: { policy: PolicyId; path: string }): Promise<void>;
  saveMoment(args: { policy: PolicyId; path: string; moment: Moment }): Promise<void>;
  restorePolicy(args: { policy: PolicyId; tensors: NativeTensorTable }): Promise<void>;
  restoreOptimizer(args: { policy: PolicyId; tensors: NativeTensorTable }): Promise<void>;
  disposePolicy(args: { policy: PolicyId }): Promise<void>;
  disposeModel(args: { model: ModelId }): Promise<void>;
  memory(): Promise<MemoryReport>;
  /** Needs no model: writes `tensors` of `weights`, with the adapter added, where `path` has room for them. */
  exportWeights(args: {
    weights: NativeTensorTable;
    adapter: NativeTensorTable | null;
    matrices: LoraMatrix[];
    rslora: boolean;
    path: string;
    tensors: NativeStoredTensor[];
    job: number;
  }): Promise<MergedMatrix[]>;
  /** A measurement of about a second, for benchmarks. */
  measureCeilings(args: { dtype: Dtype; job: number }): Promise<MachineCeilings>;
  cancel(job: number): void;
  /** Cancels running calls, waits for the engine thread and frees everything. Idempotent. */
  dispose(): Promise<void>;
}

export interface NativeBuildInfo {
  libtorch: string;
  /** CUDA version libtorch was built with, or null. */
  cuda: string | null;
  cxxFlags: string;
}

export interface NativeAddon {
  buildInfo(): NativeBuildInfo;
  /** Ends the process at once, without running handlers or waiting for threads. */
  exitNow(code: number): never;
  /** `memoryLimitBytes`: see `EngineOptions`; 0 or absent means no limit. */
  Engine: new (args: { device: string; threads: number; memoryLimitBytes?: number }) => NativeEngine;
}

let loaded: NativeAddon | undefined;

/** The addon, if it has been loaded. */
export const loadedAddon = (): NativeAddon | undefined => loaded;

/** Loads build/Release/acoer.node on first use. Throws LOAD_FAILED with the command that fixes it. */
export function loadAddon(): NativeAddon {
  if (loaded !== undefined) return loaded;
  // libgomp reads these when it is loaded. Waking a worker takes as long as a small operation, so it spins
  // for that long; longer, it would keep a core from others.
  if (process.env.OMP_WAIT_POLICY === undefined) process.env.GOMP_SPINCOUNT ??= '2000';
  process.env.OMP_WAIT_POLICY ??= 'passive';
  loaded = loadAddonFile('acoer', 'the native engine') as NativeAddon;
  return loaded;
}
