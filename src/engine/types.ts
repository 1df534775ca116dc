/**
 * The engine as the rest of the program sees it. `engine.ts` implements it over the addon; tests of the loop
 * use a deterministic fake. Calls on a busy engine queue in order.
 */
import type {
  Dtype,
  NativeCeilings,
  NativeDeviceInfo,
  NativeGenerateStats,
  NativeMemory,
  NativeModelInfo,
  NativePolicyInfo,
  NativeSampling,
  NativeSequence,
  NativeSequences,
  NativeStepResult,
  NativeTokenValues,
  TensorTable,
} from './binding';

export type {
  Dtype,
  NativeCeilings as MachineCeilings,
  NativeGenerateStats as GenerateStats,
  NativeMemory as MemoryReport,
  NativeSampling as SamplingOptions,
  NativeSequence as GeneratedSequence,
  NativeSequences as PackedSequences,
  NativeStepResult as StepResult,
  NativeTokenValues as TokenValues,
  TensorTable,
} from './binding';

export type DeviceName = 'auto' | 'cpu' | 'cuda' | `cuda:${number}`;

/** The seven linears LoRA can adapt. */
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

export interface CallOptions {
  signal?: AbortSignal;
  /** true (default): wait for the engine's turn; false: throw ENGINE_BUSY when something is running. */
  queue?: boolean;
}

export interface LoraOptions {
  kind: 'lora';
  rank: number;
  alpha: number;
  dropout?: number;
  targetModules?: readonly TargetModule[];
  seed: bigint;
  beta1?: number;
  beta2?: number;
  eps?: number;
}
export interface FullOptions {
  kind: 'full';
  beta1?: number;
  beta2?: number;
  eps?: number;
}
export type PolicyOptions = LoraOptions | FullOptions;

export interface GenerateRequest {
  promptIds: Int32Array;
  /** Defaults: 1 sample from sample number 0, temperature 1 with no filter, the base model. */
  numSamples?: number;
  firstSample?: number;
  seed: bigint;
  maxNewTokens: number;
  stopIds: Int32Array;
  sampling?: Partial<NativeSampling>;
  policy?: Policy | null;
}

/** Sequences decoded together unless a call says otherwise. */
export const DEFAULT_SLOTS = 64;

export interface GenerateCallOptions extends CallOptions {
  maxSlots?: number;
  kvBytes?: number;
  /** false: sequences go to `onSequence` alone and the result has none, so that long jobs do not hold them. Default true. */
  collect?: boolean;
  /** Called as each sequence ends, in the order they end. */
  onSequence?: (sequence: NativeSequence) => void;
}

export interface GenerateResult {
  /** In (request, sample) order. */
  sequences: NativeSequence[];
  stats: NativeGenerateStats;
}

export interface ForwardOptions extends CallOptions {
  /** Of the sampling; default 1. */
  temperature?: number;
  /** Draws the LoRA dropout of this pass; null (default): none. */
  dropoutSeed?: bigint | null;
}

export interface StepOptions {
  learningRate: number;
  weightDecay?: number;
  /** 0: no clipping. */
  maxGradNorm?: number;
}

export interface Policy extends AsyncDisposable {
  readonly info: NativePolicyInfo;
  /** Changes with every `step` and `restore` that may have changed the weights: one that failed counts, unless memory ran out. */
  readonly version: number;
  /**
   * Log-probs and entropies of the completion tokens, keeping what `backward` needs. One pass is kept: another forward, a
   * step, `zeroGradients`, `restore` and `dispose` drop it. Of a single sequence that does not fit, less is kept.
   */
  forward(sequences: NativeSequences, options?: ForwardOptions): Promise<NativeTokenValues>;
  /**
   * Adds to the gradients those of a loss whose derivative at each log-prob of the last `forward` is `dLogprobs`, and drops
   * what that kept, also when it fails; then the gradients are as before.
   * @throws BAD_ARGUMENT without a forward pass to go back through, or for a number that is not finite
   */
  backward(dLogprobs: Float64Array, options?: CallOptions): Promise<void>;
  step(options: StepOptions): Promise<NativeStepResult>;
  zeroGradients(): Promise<void>;
  gradients(): Promise<TensorTable>;
  /** One safetensors file; LoRA under PEFT's names in fp32, a full policy under Hugging Face's in `dtype`. */
  save(path: string, dtype?: Dtype): Promise<void>;
  restore(path: string): Promise<void>;
  saveOptimizer(path: string): Promise<void>;
  restoreOptimizer(path: string): Promise<void>;
  dispose(): Promise<void>;
}

export interface Model extends AsyncDisposable {
  readonly info: NativeModelInfo;
  createPolicy(options: PolicyOptions): Promise<Policy>;
  /** `directory` holds PEFT's adapter_config.json and adapter_model.safetensors. */
  loadAdapter(directory: string): Promise<Policy>;
  generate(requests: readonly GenerateRequest[], options?: GenerateCallOptions): Promise<GenerateResult>;
  score(
    sequences: NativeSequences,
    options?: CallOptions & { policy?: Policy | null; temperature?: number },
  ): Promise<NativeTokenValues>;
  dispose(): Promise<void>;
}

export interface DeviceInfo extends NativeDeviceInfo {
  /** Version of libtorch that computes. */
  libtorch: string;
}

export interface Engine extends AsyncDisposable {
  readonly deviceInfo: DeviceInfo;
  loadModel(directory: string, options?: CallOptions & { dtype?: Dtype }): Promise<Model>;
  memory(): Promise<NativeMemory>;
  /** Read bandwidth and matmul rate of the device, measured now (about a second). */
  measureCeilings(dtype: Dtype, options?: CallOptions): Promise<NativeCeilings>;
  dispose(): Promise<void>;
}
