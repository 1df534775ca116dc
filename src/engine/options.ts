/** Checks that native code cannot make: it reads only fields it knows, and a misspelt option would go unnoticed. */
import { didYouMean } from '../config/nearest';
import { AcoerError } from '../base/errors';
import { isRecord, shownJson } from '../base/json';
import type {
  AddOptions,
  CallOptions,
  DecoderOptions,
  DecodingOptions,
  ForwardOptions,
  FullOptions,
  GenerateCallOptions,
  GenerateRequest,
  LoadOptions,
  LoraOptions,
  Policy,
  PolicyOptions,
  SamplingOptions,
  StepOptions,
} from './types';

/** All options of T. A list that misses one, or has an extra one, does not compile. */
export type OptionNames<T> = { readonly [Name in keyof Required<T>]: true };

export const CALL_OPTIONS: OptionNames<CallOptions> = { signal: true, queue: true };
export const LOAD_OPTIONS: OptionNames<LoadOptions> = { dtype: true, quantization: true, ...CALL_OPTIONS };
export const SCORE_OPTIONS: OptionNames<CallOptions & { policy?: Policy; temperature?: number }> = {
  policy: true,
  temperature: true,
  ...CALL_OPTIONS,
};
export const FORWARD_OPTIONS: OptionNames<ForwardOptions> = {
  temperature: true,
  dropoutSeed: true,
  ...CALL_OPTIONS,
};
const DECODING_OPTIONS: OptionNames<DecodingOptions> = {
  maxSlots: true,
  kvBytes: true,
  kvCacheDtype: true,
  numSpeculativeTokens: true,
};
export const GENERATE_OPTIONS: OptionNames<GenerateCallOptions> = {
  ...DECODING_OPTIONS,
  completeGroups: true,
  collect: true,
  onSequence: true,
  onProgress: true,
  progressEveryMs: true,
  ...CALL_OPTIONS,
};
export const DECODER_OPTIONS: OptionNames<DecoderOptions> = {
  policies: true,
  positions: true,
  ...DECODING_OPTIONS,
  keepBytes: true,
  ...CALL_OPTIONS,
};
export const ADD_OPTIONS: OptionNames<AddOptions> = { onTokens: true, onSequence: true, signal: true };
export const STEP_OPTIONS: OptionNames<StepOptions> = {
  learningRate: true,
  weightDecay: true,
  maxGradNorm: true,
};
const OPTIMIZER_OPTIONS = { kind: true, beta1: true, beta2: true, eps: true } as const;
const FULL_OPTIONS: OptionNames<FullOptions> = { ...OPTIMIZER_OPTIONS, shard: true };
const LORA_OPTIONS: OptionNames<LoraOptions> = {
  ...OPTIMIZER_OPTIONS,
  rank: true,
  alpha: true,
  rslora: true,
  dropout: true,
  targetModules: true,
  matrices: true,
  seed: true,
};
const REQUEST_FIELDS: OptionNames<GenerateRequest> = {
  promptIds: true,
  numSamples: true,
  firstSample: true,
  firstToken: true,
  seed: true,
  maxNewTokens: true,
  stopIds: true,
  group: true,
  sampling: true,
  policy: true,
};
/** What a request does not say; it has all the names there are. */
export const SAMPLING_DEFAULTS: SamplingOptions = {
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
};

function shown(value: unknown): string {
  if (typeof value === 'string') return shownJson(value);
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** @throws BAD_ARGUMENT unless `value`, called `what`, is an object */
export function needObject(value: unknown, what: string): void {
  if (isRecord(value)) return;
  throw new AcoerError('BAD_ARGUMENT', `${what} must be an object, not ${shown(value)}`);
}

/** @throws BAD_ARGUMENT unless `value`, called `what`, can be a path */
export function needPath(value: unknown, what: string): void {
  if (typeof value === 'string' && !value.includes('\0')) return;
  const rest = typeof value === 'string' ? 'without a NUL character' : `not ${shown(value)}`;
  throw new AcoerError('BAD_ARGUMENT', `${what} must be a string, ${rest}`);
}

/** @throws BAD_ARGUMENT when `value` has a field that is not in `names` */
function needKnown(value: object, what: string, names: object): void {
  const known = Object.keys(names);
  const stranger = Object.keys(value).find((name) => !known.includes(name));
  if (stranger === undefined) return;
  const hint = didYouMean(stranger, known) || ` (there are ${known.join(', ')})`;
  throw new AcoerError('BAD_ARGUMENT', `${what} has no option ${stranger}${hint}`);
}

/** @throws BAD_ARGUMENT unless the options of the call `of` are an object with only these names */
export function needOptions(options: unknown, of: string, names: object): void {
  needObject(options, `${of}'s options`);
  needKnown(options as object, of, names);
  const { signal } = options as CallOptions;
  if (signal === undefined || typeof signal?.addEventListener === 'function') return;
  throw new AcoerError('BAD_ARGUMENT', `${of}'s signal must be an AbortSignal, not ${shown(signal)}`);
}

/** @throws BAD_ARGUMENT for invalid policy options */
export function needPolicyOptions(options: PolicyOptions): void {
  needObject(options, "createPolicy's options");
  needKnown(options, 'createPolicy', options.kind === 'full' ? FULL_OPTIONS : LORA_OPTIONS);
}

/** @throws BAD_ARGUMENT unless `request`, called `what`, is a request */
export function needRequest(request: unknown, what: string): void {
  needObject(request, what);
  needKnown(request as object, what, REQUEST_FIELDS);
  const { sampling, promptIds } = request as GenerateRequest;
  if (ArrayBuffer.isView(promptIds) && promptIds.length === 0) {
    throw new AcoerError('BAD_ARGUMENT', `${what}.promptIds is empty; a prompt has at least one token`);
  }
  if (sampling === undefined) return;
  needObject(sampling, `${what}.sampling`);
  needKnown(sampling, `${what}.sampling`, SAMPLING_DEFAULTS);
}

/** @throws BAD_ARGUMENT unless `requests` is a list of requests */
export function needRequests(requests: unknown): void {
  if (!Array.isArray(requests)) {
    throw new AcoerError('BAD_ARGUMENT', `generate's requests must be an array, not ${shown(requests)}`);
  }
  requests.forEach((request: unknown, i) => needRequest(request, `generate's requests[${i}]`));
}
