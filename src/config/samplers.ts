/** Samplers that are named by a record with a type: servers. */
import { z } from 'zod';
import { isRecord } from '../base/json';
import { count, orNull, positive, text } from './kinds';
import { isAddress } from './notify';

const SERVER = 'http or https addresses without user and password, such as http://sampler-1:8000';

export const vllmSampler = z.strictObject({
  type: z.literal('vllm').describe('Servers of vLLM, or of acoer serve (docs/external-sampler.md).'),
  servers: z
    .array(z.string().refine(isAddress, { error: `must be ${SERVER}` }))
    .min(1)
    .describe('Their addresses.'),
  folder: orNull(text()).describe(
    "Folder in which adapters are published, under the same path for the servers; null: sampler/ in the run's folder.",
  ),
  requests: count().default(128).describe('Most requests in flight at one server.'),
  patienceSeconds: positive()
    .default(600)
    .describe('How long the run waits when no server answers before it ends, to be resumed.'),
});

export type VllmSetting = z.output<typeof vllmSampler>;

/** The servers that sample for a run under these settings; null: it samples itself, or with a file. */
export const servedBy = ({ sampler }: { sampler?: unknown }): VllmSetting | null =>
  isRecord(sampler) && sampler['type'] === 'vllm' ? (sampler as VllmSetting) : null;

/** Whether the engine samples under these settings. */
export const isEngineSampler = ({ sampler }: { sampler?: unknown }): boolean =>
  sampler === 'engine' ||
  (isRecord(sampler) && sampler['type'] === undefined && sampler['name'] === 'engine');

/**
 * Whose log-probs a run trains on that are not quite the trainer's: the servers that sample for it, earlier weights with
 * groups in flight, or the engine over keys and values in 8 bits. Empty: the trainer's own, up to rounding.
 */
export function offPolicySources(settings: {
  sampler?: unknown;
  groupsInFlight?: unknown;
  kvCacheDtype?: unknown;
}): string[] {
  return [
    ...(servedBy(settings) === null ? [] : ["the servers'"]),
    ...((settings.groupsInFlight ?? null) === null ? [] : ["earlier weights'"]),
    ...((settings.kvCacheDtype ?? 'auto') === 'auto' ? [] : ["an int8 cache's"]),
  ];
}

/**
 * Defaults of a run that has such sources. Where an answer is long the small differences of its tokens add up: ratios
 * are taken token by token.
 */
export const OFF_POLICY_DEFAULTS = {
  importanceSamplingCorrection: 'token_truncate',
  importanceSamplingClipMax: 2,
} as const;

type Settings = Record<Shaping, number> & {
  sampler?: unknown;
  full: boolean;
  kvCacheDtype: string;
  numSpeculativeTokens: number;
};
/** Settings that leave tokens out, or make them less likely. */
type Shaping = 'topK' | 'topP' | 'minP' | 'repetitionPenalty';

const shapes = (name: Shaping, neutral: number) => (config: Settings) =>
  servedBy(config) === null || config[name] === neutral
    ? null
    : `is ${config[name]}, but servers give log-probs over the tokens that it leaves, and the trainer over all, so their ratio would be wrong; leave it at ${neutral}`;

/** What servers cannot do for a run, by the setting that asks for it. */
export const SERVED_FAULTS = {
  topK: shapes('topK', 0),
  topP: shapes('topP', 1),
  minP: shapes('minP', 0),
  repetitionPenalty: shapes('repetitionPenalty', 1),
  kvCacheDtype: (config: Settings) =>
    servedBy(config) === null || config.kvCacheDtype === 'auto'
      ? null
      : `is ${config.kvCacheDtype}, but servers keep their own cache: start them with --kv-cache-dtype, and leave this at auto`,
  numSpeculativeTokens: (config: Settings) =>
    servedBy(config) === null || config.numSpeculativeTokens === 0
      ? null
      : `is ${config.numSpeculativeTokens}, but servers speculate by themselves: set it there, and leave this at 0`,
  full: (config: Settings) =>
    servedBy(config) !== null && config.full
      ? 'trains all weights, but servers follow a run by LoRA adapters only; leave out full or sampler'
      : null,
};
