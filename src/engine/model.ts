/** A loaded base model over the addon. */
import type { NativeGenerateRequest, NativeModelInfo } from './binding';
import { type Calls, collected } from './calls';
import {
  GENERATE_OPTIONS,
  needObject,
  needOptions,
  needRequests,
  needPolicyOptions,
  SCORE_OPTIONS,
} from './options';
import { NativePolicy, policyArguments, policyHandle } from './policy';
import type {
  CallOptions,
  GenerateCallOptions,
  GeneratedSequence,
  GenerateRequest,
  GenerateResult,
  Model,
  PackedSequences,
  Policy,
  PolicyOptions,
  SamplingOptions,
  TokenValues,
} from './types';
import { DEFAULT_SLOTS } from './types';

const SAMPLING_DEFAULTS: SamplingOptions = {
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
};

export class NativeModel implements Model {
  private disposed: Promise<void> | undefined;

  constructor(
    private readonly calls: Calls,
    readonly info: NativeModelInfo,
  ) {
    const model = info.model;
    collected.register(this, () => calls.free((native) => native.disposeModel({ model })), this);
  }

  async createPolicy(options: PolicyOptions): Promise<Policy> {
    needPolicyOptions(options);
    const args = { model: this.info.model, ...policyArguments(options) };
    return new NativePolicy(this.calls, this, await this.calls.run((native) => native.createPolicy(args)));
  }

  async loadAdapter(directory: string): Promise<Policy> {
    const args = { model: this.info.model, directory };
    return new NativePolicy(this.calls, this, await this.calls.run((native) => native.loadAdapter(args)));
  }

  async generate(
    requests: readonly GenerateRequest[],
    given: GenerateCallOptions = {},
  ): Promise<GenerateResult> {
    needRequests(requests);
    needOptions(given, 'generate', GENERATE_OPTIONS);
    const { maxSlots = DEFAULT_SLOTS, kvBytes = 0, collect: kept = true, onSequence, ...options } = given;
    const { model } = this.info;
    const sequences: GeneratedSequence[] = [];
    let thrown: { error: unknown } | undefined;
    const collect = (sequence: GeneratedSequence): void => {
      if (kept) sequences.push(sequence);
      try {
        onSequence?.(sequence);
      } catch (error) {
        thrown = { error };
        throw error;
      }
    };
    try {
      const stats = await this.calls.run(
        (native, job) =>
          native.generate(
            { model, requests: requests.map((r) => this.request(r)), maxSlots, kvBytes, job },
            collect,
          ),
        options,
      );
      sequences.sort((a, b) => a.request - b.request || a.sample - b.sample);
      return { sequences, stats };
    } catch (error) {
      // The caller's own error comes back as it was thrown.
      throw thrown === undefined ? error : thrown.error;
    }
  }

  private request(request: GenerateRequest): NativeGenerateRequest {
    const { numSamples = 1, firstSample = 0, sampling, policy, ...rest } = request;
    return {
      ...rest,
      numSamples,
      firstSample,
      sampling: { ...SAMPLING_DEFAULTS, ...sampling },
      policy: policyHandle(policy, this),
    };
  }

  async score(
    sequences: PackedSequences,
    given: CallOptions & { policy?: Policy | null; temperature?: number } = {},
  ): Promise<TokenValues> {
    needObject(sequences, "score's sequences");
    needOptions(given, 'score', SCORE_OPTIONS);
    const { policy, temperature = 1, ...options } = given;
    const { ids, offsets, promptLengths } = sequences;
    return this.calls.run(
      async (native, job) =>
        native.score({
          ids,
          offsets,
          promptLengths,
          model: this.info.model,
          policy: policyHandle(policy, this),
          temperature,
          job,
        }),
      options,
    );
  }

  dispose(): Promise<void> {
    collected.unregister(this);
    const { model } = this.info;
    this.disposed ??= this.calls.free((native) => native.disposeModel({ model }));
    return this.disposed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}
