/** A loaded base model over the addon. */
import { AcoerError } from '../base/errors';
import { openAdapter, type TensorNames } from '../models';
import type { NativeDecoding, NativeGenerateRequest, NativeModelInfo } from './binding';
import { type Calls, NativeObject } from './calls';
import { NativeDecoder } from './decoder';
import {
  DECODER_OPTIONS,
  GENERATE_OPTIONS,
  needObject,
  needOptions,
  needPath,
  needPolicyOptions,
  needRequests,
  SAMPLING_DEFAULTS,
  SCORE_OPTIONS,
} from './options';
import { NativePolicy, policyArguments, policyHandle } from './policy';
import type {
  CallOptions,
  Decoder,
  DecoderOptions,
  DecodingOptions,
  GenerateCallOptions,
  GeneratedSequence,
  GenerateRequest,
  GenerateResult,
  KernelFamily,
  Model,
  PackedSequences,
  Policy,
  PolicyOptions,
  TokenValues,
} from './types';
import { DEFAULT_SLOTS, PROGRESS_EVERY_MS } from './types';

const decodingOf = ({
  maxSlots = DEFAULT_SLOTS,
  kvBytes = 0,
  kvCacheDtype = 'auto',
  numSpeculativeTokens = 0,
}: DecodingOptions): NativeDecoding => ({ maxSlots, kvBytes, kvCacheDtype, numSpeculativeTokens });

export class NativeModel extends NativeObject implements Model {
  constructor(
    calls: Calls,
    readonly info: NativeModelInfo,
    private readonly names: TensorNames,
  ) {
    super(calls, (native) => native.disposeModel({ model: info.model }));
  }

  async createPolicy(options: PolicyOptions): Promise<Policy> {
    needPolicyOptions(options);
    const args = { model: this.info.model, ...policyArguments(options) };
    const info = await this.calls.run((native) => native.createPolicy(args));
    return new NativePolicy(this.calls, this, info, options.kind === 'full' ? this.names : undefined);
  }

  async loadAdapter(directory: string): Promise<Policy> {
    needPath(directory, "loadAdapter's directory");
    if (this.disposed !== undefined) throw new AcoerError('DISPOSED', 'the model was disposed');
    const { model, numLayers } = this.info;
    return this.calls.runWithFiles(
      () => openAdapter(directory, numLayers),
      async (native, { shape, table }) => {
        const options = policyArguments({ kind: 'lora', ...shape, seed: 0n });
        const info = await native.loadAdapter({ model, options, tensors: table });
        return new NativePolicy(this.calls, this, info);
      },
    );
  }

  async generate(
    requests: readonly GenerateRequest[],
    given: GenerateCallOptions = {},
  ): Promise<GenerateResult> {
    needRequests(requests);
    needOptions(given, 'generate', GENERATE_OPTIONS);
    const { collect: kept = true, onSequence, onProgress, progressEveryMs = PROGRESS_EVERY_MS } = given;
    const { completeGroups } = given;
    const { model } = this.info;
    const sequences: GeneratedSequence[] = [];
    let thrown: { error: unknown } | undefined;
    const remembering =
      <T>(tell: (value: T) => void) =>
      (value: T): void => {
        try {
          tell(value);
        } catch (error) {
          thrown = { error };
          throw error;
        }
      };
    const collect = (sequence: GeneratedSequence): void => {
      if (kept) sequences.push(sequence);
      onSequence?.(sequence);
    };
    try {
      const stats = await this.calls.run((native, job) => {
        const complete = requests.map((request) => this.request(request));
        return native.generate(
          {
            model,
            requests: complete,
            ...decodingOf(given),
            job,
            progressEveryMs,
            ...(completeGroups && { completeGroups }),
          },
          remembering(collect),
          onProgress && remembering(onProgress),
        );
      }, given);
      sequences.sort((a, b) => a.request - b.request || a.sample - b.sample);
      return { sequences, stats };
    } catch (error) {
      // Rethrow the caller's own error unchanged.
      throw thrown === undefined ? error : thrown.error;
    }
  }

  async openDecoder(given: DecoderOptions): Promise<Decoder> {
    needOptions(given, 'openDecoder', DECODER_OPTIONS);
    const { policies = [null], positions, keepBytes = 0 } = given;
    const handles = policies.map((policy) => policyHandle(policy, this));
    return NativeDecoder.open(
      this.calls,
      { model: this.info.model, policies: handles, positions, keepBytes, ...decodingOf(given) },
      (request) => this.request(request),
      given,
    );
  }

  private request(request: GenerateRequest): NativeGenerateRequest {
    const { numSamples = 1, firstSample = 0, firstToken = 0, group = 0, sampling, policy, ...rest } = request;
    return {
      ...rest,
      numSamples,
      firstSample,
      firstToken,
      group,
      sampling: { ...SAMPLING_DEFAULTS, ...sampling },
      policy: policyHandle(policy, this),
    };
  }

  leaveOutKernels(family: KernelFamily, why: string): Promise<boolean> {
    return this.calls.run((native) => native.leaveOutKernels({ model: this.info.model, family, why }));
  }

  async score(
    sequences: PackedSequences,
    given: CallOptions & { policy?: Policy | null; temperature?: number } = {},
  ): Promise<TokenValues> {
    needObject(sequences, "score's sequences");
    needOptions(given, 'score', SCORE_OPTIONS);
    const { policy, temperature = 1, ...options } = given;
    const { ids, offsets, promptLengths } = sequences;
    const args = { ids, offsets, promptLengths, model: this.info.model, temperature };
    return this.calls.run(
      async (native, job) => native.score({ ...args, policy: policyHandle(policy, this), job }),
      options,
    );
  }
}
