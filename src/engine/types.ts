/**
 * The engine as the rest of the program sees it. `engine.ts` implements it over the addon; tests of the
 * training loop use a deterministic fake. Calls on a busy engine are queued in order.
 */
import type {
  Dtype,
  KernelFamily,
  KvCacheDtype,
  NativeDeviceInfo,
  NativeModelInfo,
  NativeNewTokens,
  NativePolicyInfo,
  NativeStoredTensor,
  Quantization,
  TensorTable,
} from './binding';

export type { Dtype, KernelFamily, KvCacheDtype, Quantization, TensorTable } from './binding';

export type DeviceName = 'auto' | 'cpu' | 'cuda' | `cuda:${number}`;

/** The seven linear layers that LoRA can adapt. */
export const TARGET_MODULES = [
  'q_proj',
  'k_proj',
  'v_proj',
  'o_proj',
  'gate_proj',
  'up_proj',
  'down_proj',
] as const;
export type TargetModule = (typeof TARGET_MODULES)[number];

/** A linear that LoRA adapts: a pair of `rank`, scaled by `alpha / rank` (rsLoRA: by `alpha / sqrt(rank)`). */
export interface LoraMatrix {
  /** From 0. */
  layer: number;
  module: TargetModule;
  rank: number;
  alpha: number;
}

export interface PackedSequences {
  ids: Int32Array;
  offsets: Int32Array;
  promptLengths: Int32Array;
  /**
   * Where runs of sequences begin, from 0, and the number of sequences. Small models on a CPU compute each run as if it
   * was alone, so that its gradient depends neither on what else is in the call nor on the number of threads. Default:
   * a run for each thread.
   */
  runs?: Int32Array;
}

export interface SamplingOptions {
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  repetitionPenalty: number;
}

export interface GeneratedSequence {
  request: number;
  sample: number;
  ids: Int32Array;
  logprobs: Float64Array;
  entropies: Float64Array;
  /** `partial`: the call ended before, because enough groups were complete (`completeGroups`). */
  finish: 'stop' | 'length' | 'cancelled' | 'partial';
}

export interface GenerateStats {
  /** Prefilled, each prompt once. */
  promptTokens: number;
  /** Of prompts, taken from caches that a decoder kept instead (`keepBytes`). */
  keptTokens: number;
  newTokens: number;
  decodeSteps: number;
  /** Computed beside the token before them, because they followed the same tokens before (`numSpeculativeTokens`). */
  proposedTokens: number;
  /** Of those, the ones that were drawn. */
  acceptedTokens: number;
  peakSlots: number;
  prefillMs: number;
  decodeMs: number;
  /** Why a GPU decoded without acoer's CUDA kernels or graphs of them, in a sentence; otherwise empty. */
  fallback: string;
}

/** How far a call of `generate` has come; on a GPU as of the host's last look, every eight tokens. */
export interface GenerateProgress {
  /** Sequences that have ended; each has been given to `onSequence`. */
  ended: number;
  total: number;
  /** Prompt tokens prefilled; on a GPU that work may only have been started. */
  promptTokens: number;
  /** For each sequence being decoded three numbers: request, sample, new tokens so far. */
  inFlight: Int32Array;
}

/** One number per completion token. */
export interface TokenValues {
  /** Log-probs of the tokens under the policy at the given temperature. */
  logprobs: Float64Array;
  /** Entropies, in nats, of the distributions the tokens were drawn from. */
  entropies: Float64Array;
}

export interface StepResult {
  gradNorm: number;
  applied: boolean;
}

export interface MemoryReport {
  /** Bytes of weights, adapters, optimiser state and caches held by this engine. */
  engineBytes: number;
  residentBytes: number;
  peakResidentBytes: number;
  deviceFreeBytes: number;
  deviceTotalBytes: number;
  /** Bytes of all live tensors, now and at the peak; null on a CPU without a memory limit. */
  tensorBytes: number | null;
  peakTensorBytes: number | null;
}

/** The measured peak rates of the machine (native/core/base/ceilings.h). */
export interface MachineCeilings {
  readBytesPerSecond: number;
  matmulFlopsPerSecond: number;
}

export interface CallOptions {
  signal?: AbortSignal;
  /** true (default): wait in the engine's queue; false: throw ENGINE_BUSY if it is busy. */
  queue?: boolean;
}

/** AdamW's. */
interface OptimizerOptions {
  beta1?: number;
  beta2?: number;
  eps?: number;
}

export interface LoraOptions extends OptimizerOptions {
  kind: 'lora';
  rank: number;
  alpha: number;
  /** rsLoRA: scaled by alpha / sqrt(rank) instead of alpha / rank. Default false. */
  rslora?: boolean;
  dropout?: number;
  targetModules?: readonly TargetModule[];
  /**
   * Exactly what is adapted, each with a rank and alpha of its own, in place of `targetModules` in every layer;
   * `rank` and `alpha` then describe the adapter as a whole only.
   */
  matrices?: readonly LoraMatrix[];
  seed: bigint;
}
/**
 * Part `index` of `count` of all trained numbers, laid end to end. Each of `count` processes keeps AdamW's moments of
 * its own part only: the first stage of ZeRO (https://arxiv.org/abs/1910.02054).
 */
export interface Shard {
  index: number;
  count: number;
}

export interface FullOptions extends OptimizerOptions {
  kind: 'full';
  /** `step` then changes the weights of the shard only. Default: all are one shard. */
  shard?: Shard;
}

/** One of AdamW's moments. */
export type Moment = 'exp_avg' | 'exp_avg_sq';
export type PolicyOptions = LoraOptions | FullOptions;

export interface GenerateRequest {
  promptIds: Int32Array;
  /** Defaults: 1 sample from sample number 0, temperature 1 with no filter, the base model. */
  numSamples?: number;
  firstSample?: number;
  /** Tokens that an earlier call drew; they end `promptIds`, and draws go on from there. Default 0. */
  firstToken?: number;
  seed: bigint;
  maxNewTokens: number;
  stopIds: Int32Array;
  /** To which its samples belong, for `completeGroups`. Default 0. */
  group?: number;
  sampling?: Partial<SamplingOptions>;
  policy?: Policy | null;
}

export const QUANTIZATIONS = ['nf4', 'int8'] as const satisfies readonly Quantization[];
export const KV_CACHE_DTYPES = ['auto', 'int8'] as const satisfies readonly KvCacheDtype[];

/** The largest `numSpeculativeTokens`. */
export const MOST_SPECULATIVE_TOKENS = 16;
/** Default for the number of sequences decoded together. */
export const DEFAULT_SLOTS = 64;
/** Default for the time between two reports of a generation's progress, in milliseconds. */
export const PROGRESS_EVERY_MS = 250;

/** How sequences are decoded together. */
export interface DecodingOptions {
  /** Most sequences decoded together. Default `DEFAULT_SLOTS`. */
  maxSlots?: number;
  /** Maximum size of the KV cache in bytes. Default 0: a share of the free memory. */
  kvBytes?: number;
  /** What keys and values are kept in. Default auto: the model's type. */
  kvCacheDtype?: KvCacheDtype;
  /**
   * Most tokens of a sequence that a step computes beside its last one, because they followed the same tokens before;
   * vLLM's `num_speculative_tokens` with its method ngram. Fewer steps, and nothing of what is drawn changes. 0 to
   * `MOST_SPECULATIVE_TOKENS`. Default 0: none.
   */
  numSpeculativeTokens?: number;
}

export interface GenerateCallOptions extends CallOptions, DecodingOptions {
  /**
   * The call ends when, for every i, at least `completeGroups[i]` of the groups 0 to i are complete; one without
   * requests is from the start. What is unfinished then comes with the finish `partial` and the tokens so far. Default:
   * the call ends when every sequence has.
   */
  completeGroups?: Int32Array;
  /** false: sequences go to `onSequence` alone, and none are kept and returned. Default true. */
  collect?: boolean;
  /** Called for each sequence when it ends. */
  onSequence?: (sequence: GeneratedSequence) => void;
  /**
   * Called while tokens are added, at most every `progressEveryMs` and never before the last call has returned:
   * a report that would have to wait is dropped.
   */
  onProgress?: (progress: GenerateProgress) => void;
  /** Default `PROGRESS_EVERY_MS`. */
  progressEveryMs?: number;
}

/** How to open a decoder. */
export interface DecoderOptions extends CallOptions, DecodingOptions {
  /** Most positions of a request: prompt and new tokens. */
  positions: number;
  /** That requests may name; null is the base model. Default `[null]`. */
  policies?: readonly (Policy | null)[];
  /**
   * Bytes for the keys and values of sequences that have ended, beside `kvBytes`. A request whose prompt begins like
   * one of them continues from there: the next turn of a conversation is prefilled from its new part on. Those used
   * longest ago give way. Default 0: nothing is kept.
   */
  keepBytes?: number;
}

/** New tokens of one sample of a request. */
export type NewTokens = Omit<NativeNewTokens, 'kind' | 'request'>;

export interface AddOptions {
  /** Called as tokens are made: one at a time, or up to eight (small models, GPUs). */
  onTokens?: (tokens: NewTokens) => void;
  /** Called for each sequence when it ends. */
  onSequence?: (sequence: GeneratedSequence) => void;
  /** Cancels this request. */
  signal?: AbortSignal;
}

/** A request that was added to a decoder. */
export interface AddedRequest {
  /** Its number in the decoder, from 0; its sequences carry it as `request`. */
  readonly id: number;
  /**
   * Its sequences by sample; those that were cancelled have the tokens so far and the finish "cancelled". Rejects with
   * BAD_ARGUMENT when the request is not allowed, with what a callback threw, or with what ended the decoder before its sequences came.
   */
  readonly sequences: Promise<GeneratedSequence[]>;
}

/**
 * Decodes requests that arrive while it decodes others, with the tokens that `generate` gives. Until it is closed the
 * engine does nothing else: other calls wait for it, and it keeps the process alive.
 */
export interface Decoder extends AsyncDisposable {
  /** Returns at once. @throws DISPOSED once the decoder is closed or has failed */
  add(request: GenerateRequest, options?: AddOptions): AddedRequest;
  /** Ends a request; one that has ended, or never was, is ignored. */
  cancel(id: number): void;
  /** Takes no more requests and resolves when those that were added have ended. Idempotent. */
  close(): Promise<GenerateStats>;
}

export interface GenerateResult {
  /** In (request, sample) order. */
  sequences: GeneratedSequence[];
  stats: GenerateStats;
}

export interface ForwardOptions extends CallOptions {
  /** Sampling temperature. Default 1. */
  temperature?: number;
  /** Seed of this pass's LoRA dropout; null (default) turns dropout off. */
  dropoutSeed?: bigint | null;
}

export interface StepOptions {
  learningRate: number;
  weightDecay?: number;
  /** 0 means no clipping. */
  maxGradNorm?: number;
}

export interface Policy extends AsyncDisposable {
  readonly info: NativePolicyInfo;
  /** Changes with every `step` and `restore`, even a failed one, unless memory ran out before the weights changed. */
  readonly version: number;
  /**
   * Log-probs and entropies of the completion tokens, keeping what `backward` needs. Only one pass is kept:
   * another forward, a step, `zeroGradients`, `restore` and `dispose` drop it. For a single sequence that
   * does not fit, less is kept and more recomputed.
   */
  forward(sequences: PackedSequences, options?: ForwardOptions): Promise<TokenValues>;
  /**
   * Adds the gradients of a loss whose derivative with respect to each log-prob of the last `forward` is
   * `dLogprobs`, and drops what that pass kept. On failure it drops that too, and the gradients are
   * unchanged.
   * @throws BAD_ARGUMENT without a forward pass, or for a number that is not finite
   */
  backward(dLogprobs: Float64Array, options?: CallOptions): Promise<void>;
  step(options: StepOptions): Promise<StepResult>;
  zeroGradients(): Promise<void>;
  gradients(): Promise<TensorTable>;
  /**
   * The gradients since the last step, summed, of all parameters end to end: to be added up with those of other
   * processes, in place. `step` rounds them to the weights' type. Every call gives the same array, whose numbers are
   * valid until the next call of the policy; on a CPU it is the engine's own memory, which the policy keeps from then
   * on. Float64 for LoRA and for small models on a CPU, else the weights' type.
   */
  gradientSums(): Promise<Float64Array | Float32Array>;
  /**
   * Copies what this policy's shard has of the weights or of a moment to its place in the memory of `gradientSums`, and
   * gives that: processes gather their shards there, each from `info.shardOffsets[index]` to the next offset. The sums
   * are lost; until `takeWeights` or `zeroGradients` the policy must not be trained.
   */
  lendShard(what: 'weights' | Moment): Promise<Float64Array | Float32Array>;
  /** The weights become those that were gathered. @throws BAD_ARGUMENT if nothing was lent */
  takeWeights(): Promise<void>;
  /** One safetensors file; LoRA under PEFT's names in fp32, a full policy under Hugging Face's in `dtype`. */
  save(path: string, dtype?: Dtype): Promise<void>;
  restore(path: string): Promise<void>;
  /** @throws BAD_ARGUMENT for one shard of several */
  saveOptimizer(path: string): Promise<void>;
  /** Writes a moment that was gathered to the file of `saveOptimizer`, which exp_avg makes and exp_avg_sq completes. */
  saveMoment(path: string, moment: Moment): Promise<void>;
  /** Keeps what the policy's shard has of the file of all. */
  restoreOptimizer(path: string): Promise<void>;
  dispose(): Promise<void>;
}

export interface Model extends AsyncDisposable {
  readonly info: NativeModelInfo;
  createPolicy(options: PolicyOptions): Promise<Policy>;
  /** Loads PEFT's adapter_config.json and adapter_model.safetensors from `directory`. */
  loadAdapter(directory: string): Promise<Policy>;
  generate(requests: readonly GenerateRequest[], options?: GenerateCallOptions): Promise<GenerateResult>;
  /** @throws BAD_ARGUMENT, or OUT_OF_MEMORY when not one sequence of `positions` fits */
  openDecoder(options: DecoderOptions): Promise<Decoder>;
  score(
    sequences: PackedSequences,
    options?: CallOptions & { policy?: Policy | null; temperature?: number },
  ): Promise<TokenValues>;
  /**
   * From now on libtorch's operations do the work of these CUDA kernels, because of `why`; if that is empty, the kernels
   * do it again. Absent: there are none.
   * @returns whether the kernels did it before
   */
  leaveOutKernels?(family: KernelFamily, why: string): Promise<boolean>;
  dispose(): Promise<void>;
}

/** Weights in files. */
export interface WeightSource {
  /** Folder of the model in Hugging Face's layout. */
  model: string;
  /** A safetensors or GGUF file with the weights, in place of the folder's own; null: those. */
  weights: string | null;
  /** Folder of a PEFT LoRA that is added to them; null: none. */
  adapter: string | null;
}

/** Where a tensor goes in a file that has its header; named as the engine does. */
export type TensorPlace = Omit<NativeStoredTensor, 'file'>;

/**
 * What writing a matrix W + s B A in fewer bits kept of its update s B A: root mean squares over the matrix,
 * computed in fp64.
 */
export interface MergedMatrix {
  /** The weight's. */
  name: string;
  /** Of W. */
  weightRms: number;
  /** Of s B A. */
  updateRms: number;
  /** Of what is stored less W + s B A. */
  errorRms: number;
  /** Share of numbers that are stored as W alone would be. */
  unchanged: number;
}

export interface DeviceInfo extends NativeDeviceInfo {
  /** Version of libtorch. */
  libtorch: string;
}

export interface LoadOptions extends CallOptions {
  /** To compute in. Default: the model's own. */
  dtype?: Dtype | undefined;
  /** Keeps the linear weights of all layers in fewer bits; they can then not be trained themselves. Default: null. */
  quantization?: Quantization | null | undefined;
}

export interface Engine extends AsyncDisposable {
  readonly deviceInfo: DeviceInfo;
  loadModel(directory: string, options?: LoadOptions): Promise<Model>;
  memory(): Promise<MemoryReport>;
  /** Read bandwidth and matmul rate of the device, measured now (about a second). */
  measureCeilings(dtype: Dtype, options?: CallOptions): Promise<MachineCeilings>;
  dispose(): Promise<void>;
}

/** An engine that also writes weights for other programs, and reads them back. */
export interface ExportingEngine extends Engine {
  /** Loads weights that are not in the model's own folder. */
  loadWeights(source: Omit<WeightSource, 'adapter'>, options?: LoadOptions): Promise<Model>;
  /**
   * Fills the places of `path`, a file whose header is written, with weights that need not be loaded: W + s B A in fp32,
   * rounded once, a part of a tensor at a time. Resolves to what rounding did to each adapted matrix.
   * @throws BAD_FILE, or BAD_ARGUMENT for a number that a type cannot hold; `path` is of no use then
   */
  exportWeights(
    source: WeightSource,
    target: { path: string; places: readonly TensorPlace[] },
    options?: CallOptions,
  ): Promise<MergedMatrix[]>;
}
