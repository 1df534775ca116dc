/** A policy over the addon. */
import { AcoerError, errorCode } from '../base/errors';
import { openTensorFiles, type TensorNames } from '../models';
import type { NativeEngine, NativePolicyInfo, NativePolicyOptions } from './binding';
import { type Calls, NativeObject } from './calls';
import { CALL_OPTIONS, FORWARD_OPTIONS, needOptions, needPath, STEP_OPTIONS } from './options';
import type {
  CallOptions,
  Dtype,
  ForwardOptions,
  Model,
  Moment,
  PackedSequences,
  Policy,
  PolicyOptions,
  StepOptions,
  StepResult,
  TensorTable,
  TokenValues,
} from './types';
import { TARGET_MODULES } from './types';

/** The options with every default filled in. */
export function policyArguments(options: PolicyOptions): NativePolicyOptions {
  const { kind, beta1 = 0.9, beta2 = 0.999, eps = 1e-8 } = options;
  if (kind === 'full') {
    const none = { rank: 0, alpha: 0, rslora: false, dropout: 0, targets: [], matrices: [], seed: 0n };
    return { kind, ...none, beta1, beta2, eps, shard: options.shard };
  }
  const { rank, alpha, rslora = false, dropout = 0, matrices, seed } = options;
  const targets = matrices === undefined ? [...(options.targetModules ?? TARGET_MODULES)] : [];
  const shape = { rank, alpha, rslora, targets, matrices: [...(matrices ?? [])] };
  return { kind, ...shape, dropout, seed, beta1, beta2, eps };
}

export class NativePolicy extends NativeObject implements Policy {
  version = 0;
  private changes = 0;
  /** What `gradientSums` gives. */
  private sums: Float64Array | Float32Array | undefined;

  constructor(
    calls: Calls,
    readonly model: Model,
    readonly info: NativePolicyInfo,
    /** For a full policy: maps tensor names in the model's files to the engine's names. */
    private readonly names?: TensorNames,
  ) {
    super(calls, (native) => native.disposePolicy({ policy: info.policy }));
  }

  async forward(sequences: PackedSequences, options: ForwardOptions = {}): Promise<TokenValues> {
    needOptions(options, 'forward', FORWARD_OPTIONS);
    const { temperature = 1, dropoutSeed = null } = options;
    const { policy } = this.info;
    const { ids, offsets, promptLengths, runs } = sequences;
    const args = { ids, offsets, promptLengths, runs, policy, temperature, dropoutSeed };
    return this.calls.run((native, job) => native.forward({ ...args, job }), options);
  }

  async backward(dLogprobs: Float64Array, options: CallOptions = {}): Promise<void> {
    needOptions(options, 'backward', CALL_OPTIONS);
    const { policy } = this.info;
    return this.calls.run((native, job) => native.backward({ policy, dLogprobs, job }), options);
  }

  async step(options: StepOptions): Promise<StepResult> {
    needOptions(options, 'step', STEP_OPTIONS);
    const { learningRate, weightDecay = 0, maxGradNorm = 0 } = options;
    const { policy } = this.info;
    return this.changing(() =>
      this.calls.run((native) => native.step({ policy, learningRate, weightDecay, maxGradNorm })),
    );
  }

  /** Counts a new version unless memory ran out, which is detected before the first weight changes. */
  private async changing<T>(work: () => Promise<T>): Promise<T> {
    const before = this.version;
    this.version = ++this.changes;
    try {
      return await work();
    } catch (error) {
      if (errorCode(error) === 'OUT_OF_MEMORY') this.version = before;
      throw error;
    }
  }

  zeroGradients(): Promise<void> {
    return this.calls.run((native) => native.zeroGradients({ policy: this.info.policy }));
  }

  gradients(): Promise<TensorTable> {
    return this.calls.run((native) => native.gradients({ policy: this.info.policy }));
  }

  gradientSums(): Promise<Float64Array | Float32Array> {
    return this.lent((native) => native.gradientSums({ policy: this.info.policy }));
  }

  lendShard(what: 'weights' | Moment): Promise<Float64Array | Float32Array> {
    return this.lent((native) => native.lendShard({ policy: this.info.policy, what }));
  }

  takeWeights(): Promise<void> {
    return this.changing(() => this.calls.run((native) => native.takeWeights({ policy: this.info.policy })));
  }

  private async lent(
    call: (native: NativeEngine) => Promise<Float64Array | Float32Array | undefined>,
  ): Promise<Float64Array | Float32Array> {
    const first = await this.calls.run(call);
    return (this.sums ??= first!);
  }

  save(path: string, dtype?: Dtype): Promise<void> {
    const { policy } = this.info;
    return this.calls.run((native) => native.savePolicy({ policy, path, dtype: dtype ?? null }));
  }

  restore(path: string): Promise<void> {
    return this.changing(() => this.read(path, 'restorePolicy', this.names));
  }

  saveOptimizer(path: string): Promise<void> {
    return this.calls.run((native) => native.saveOptimizer({ policy: this.info.policy, path }));
  }

  saveMoment(path: string, moment: Moment): Promise<void> {
    return this.calls.run((native) => native.saveMoment({ policy: this.info.policy, path, moment }));
  }

  restoreOptimizer(path: string): Promise<void> {
    return this.read(path, 'restoreOptimizer');
  }

  private async read(
    path: string,
    method: 'restorePolicy' | 'restoreOptimizer',
    names?: TensorNames,
  ): Promise<void> {
    needPath(path, 'the path');
    const { policy } = this.info;
    return this.calls.runWithFiles(
      () => openTensorFiles([path], names),
      (native, { table }) => native[method]({ policy, tensors: table }),
    );
  }
}

/** The handle of `policy` for a call on `model`; null: the base model. @throws BAD_ARGUMENT */
export function policyHandle(
  policy: Policy | null | undefined,
  model: Model,
): NativePolicyInfo['policy'] | null {
  if (policy === null || policy === undefined) return null;
  if (!(policy instanceof NativePolicy)) {
    throw new AcoerError('BAD_ARGUMENT', 'policy must be null or made by createPolicy or loadAdapter');
  }
  if (policy.model !== model) {
    throw new AcoerError(
      'BAD_ARGUMENT',
      'the policy belongs to another model; create it on the model it is used with',
    );
  }
  return policy.info.policy;
}
