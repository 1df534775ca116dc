/** The port to a sampler, used by training, evaluations and `acoer generate`: prompts in, completions out. */
import type {
  CallOptions,
  GenerateRequest,
  GenerateStats,
  GeneratedSequence,
  KvCacheDtype,
  Model,
  Policy,
  SamplingOptions,
} from '../engine/types';
import { measureCompletion, type Tokenizer } from '../tokenizer';
import type { Outside, Thinking } from '../base/types';
import { warnOnce } from '../base/warnings';
import { generateFitting, type SlotLimit } from './fitting';
import type { InFlight, SampleProgress } from './progress';

/** A prompt and which of its samples are wanted. */
export interface SamplePrompt {
  ids: Int32Array;
  /** The chat template already opened `<think>`. */
  thinkOpened: boolean;
  firstSample: number;
  numSamples: number;
  /** Keys the draws together with the sample's number, so they do not depend on what else is sampled. */
  seed: bigint;
  maxNewTokens: number;
  /** Tokens that an earlier call sampled; they end `ids`, and draws go on from there. Default 0. */
  firstToken?: number;
  /** Default 0. */
  group?: number;
}

export interface SampleSettings extends Pick<CallOptions, 'signal'> {
  sampling: Partial<SamplingOptions>;
  stopIds: Int32Array;
  /** Maximum size of the KV cache in bytes. */
  kvBytes?: number;
  /** What keys and values are kept in. Default auto. */
  kvCacheDtype?: KvCacheDtype;
  /** Most tokens that a step computes beside a completion's last one, as in the engine's `generate`. Default 0. */
  numSpeculativeTokens?: number;
  /**
   * For the engine's own sampler: the call ends once so many groups are complete, as in the engine's `generate`. The
   * completions that are unfinished then come with the finish "partial".
   */
  completeGroups?: Int32Array;
  /** To be called while tokens are added, about four times a second. */
  onProgress?: (progress: SampleProgress) => void;
}

export interface Completion
  extends Thinking, Required<Outside>, Omit<GeneratedSequence, 'request' | 'entropies'> {
  /** Index of its prompt in the list. */
  prompt: number;
  /** null: the sampler does not know them. */
  entropies: Float64Array | null;
  text: string;
}

type LeftOut = 'text' | 'entropies' | keyof Thinking | keyof Outside;

/** What a sampler hands in: text and counts may be left out, and are then made from the ids; so may entropies. */
export type SampledCompletion = Omit<Completion, LeftOut> &
  Partial<Pick<Completion, LeftOut>> & {
    /** Text and counts are written by hand, not what the ids say: for examples and tests of rewards. */
    scripted?: boolean;
  };

/** What a sampler says at the end of a call. */
export interface SampleStats {
  /** Sampled tokens. */
  newTokens: number;
  /** Requests to a server that had to be made again; absent: not counted. */
  retries?: number;
  /** Tokens that speculation proposed; absent: not counted. After memory ran out, of the call that ended. */
  proposedTokens?: number;
  /** Of those, the ones that were drawn. */
  acceptedTokens?: number;
}

/** Each completion is checked as it arrives; SAMPLER_FAILED ends the run, naming the completion and its fault. */
export interface Sampler {
  /**
   * Whether `sample` calls `onProgress`, at the least after every eight tokens or layer of a prefill. The
   * watchdog then notices a hang in the middle of a long completion. Default false.
   */
  readonly reportsProgress?: boolean;
  /**
   * `onCompletion` gets each completion once, as it ends, including those that `signal` cut off. `finish` is
   * `stop` exactly if the last id is one of `stopIds`.
   * @throws OUT_OF_MEMORY when not even one can be sampled; NOT_FINITE with `request`, `sample` and `token`
   */
  sample(
    prompts: readonly SamplePrompt[],
    settings: SampleSettings,
    onCompletion: (completion: SampledCompletion) => void,
  ): Promise<SampleStats>;
  /** Called before sampling; a sampler with its own copy of the weights fetches them for a new version. */
  follow(policyVersion: number, signal?: AbortSignal): Promise<void>;
  /** Called once, when weights and state are loaded and before anything is sampled. */
  open?(signal?: AbortSignal): Promise<void>;
  /** Called once, when the run ends. */
  dispose?(): Promise<void>;
}

/** The engine's request for a prompt. */
export const requestOf = (
  { ids, firstSample, numSamples, firstToken, seed, maxNewTokens, group }: SamplePrompt,
  { sampling, stopIds }: SampleSettings,
  policy: Policy | null,
): GenerateRequest => ({
  promptIds: ids,
  numSamples,
  firstSample,
  ...(firstToken !== undefined && { firstToken }),
  seed,
  maxNewTokens,
  stopIds,
  ...(group !== undefined && { group }),
  sampling,
  policy,
});

/** Decoding is then several times slower than the GPU allows. */
function warnOfFallback(reason: string): void {
  if (reason !== '') warnOnce(`decoding is slower than it could be: ${reason}`);
}

/** Samples with the very weights being trained, so there is no copy to fetch. */
export class EngineSampler implements Sampler {
  readonly reportsProgress = true;

  /** @param slots the limit for the next call; lowered when memory runs out */
  constructor(
    private readonly parts: {
      model: Model;
      /** null: the base model. */
      policy: Policy | null;
      tokenizer: Pick<Tokenizer, 'decode' | 'thinkOpenId' | 'thinkCloseId'>;
      slots: () => SlotLimit;
    },
  ) {}

  async sample(
    prompts: readonly SamplePrompt[],
    settings: SampleSettings,
    onCompletion: (completion: Completion) => void,
  ): Promise<GenerateStats> {
    const { model, policy, tokenizer, slots } = this.parts;
    const requests = prompts.map((prompt) => requestOf(prompt, settings, policy));
    const onSequence = ({ request: prompt, sample: place, ...sequence }: GeneratedSequence) => {
      const { thinkOpened, firstSample } = prompts[prompt]!;
      const text = tokenizer.decode(sequence.ids, { skipSpecial: true });
      const counts = measureCompletion(sequence.ids, tokenizer, thinkOpened);
      onCompletion({ prompt, sample: firstSample + place, ...sequence, text, ...counts });
    };
    const { signal, kvBytes, kvCacheDtype, numSpeculativeTokens, completeGroups } = settings;
    const { onProgress: report } = settings;
    const ofPrompt = (one: InFlight) => ({ ...one, sample: prompts[one.prompt]!.firstSample + one.sample });
    const onProgress =
      report &&
      (({ promptTokens, inFlight }: SampleProgress) =>
        report({ promptTokens, inFlight: inFlight.map(ofPrompt) }));
    const decoding = { kvBytes, kvCacheDtype, numSpeculativeTokens, completeGroups };
    const options = { signal, ...decoding, onSequence, onProgress };
    const stats = await generateFitting(model, requests, slots(), options);
    warnOfFallback(stats.fallback);
    return stats;
  }

  async follow(): Promise<void> {}
}
