/**
 * The border between a sampler and its users. A completion with a wrong key would move a reward to another
 * completion, and one with bent ids or log-probs would go into the update, so each is checked once, as it arrives.
 */
import { abortable } from '../base/abortable';
import { shownValue } from '../base/border';
import { AcoerError, errorCode, errorMessage } from '../base/errors';
import { isRecord } from '../base/json';
import { measureCompletion, type Tokenizer } from '../tokenizer';
import type { SampleProgress } from './progress';
import {
  EngineSampler,
  type Completion,
  type SampledCompletion,
  type SamplePrompt,
  type Sampler,
  type SampleSettings,
  type SampleStats,
} from './sampler';

/** What completions are checked against. */
export interface SamplingBorder {
  tokenizer: Pick<Tokenizer, 'decode' | 'thinkOpenId' | 'thinkCloseId'>;
  /** Rows of the model's embedding: ids are below it. */
  vocabSize: number;
  /** The name of a completion in messages; `prompt` is the place in the list given to the sampler. */
  nameOf(prompt: number, sample: number): string;
}

/** Log-probs of float32 logits of some hundreds may round to 1e-5 above 0, and servers print fewer digits. */
const ROUNDING = 1e-3;

const FINISHES: readonly unknown[] = ['stop', 'length', 'cancelled', 'partial'];

const isTyped = (value: unknown, type: 'Int32Array' | 'Float64Array'): boolean =>
  // Not instanceof: arrays of native code and of other realms are instances of another constructor.
  ArrayBuffer.isView(value) && Object.prototype.toString.call(value) === `[object ${type}]`;

/** What is wrong with ids, log-probs and entropies, which may be unknown, or null. */
function faultOfTokens(
  { ids, logprobs, entropies: known }: SampledCompletion,
  vocabSize: number,
  maxNewTokens: number,
): string | null {
  if (!isTyped(ids, 'Int32Array')) return `its ids must be an Int32Array, not ${shownValue(ids)}`;
  if (ids.length > maxNewTokens) return `it has ${ids.length} ids, and ${maxNewTokens} were the most wanted`;
  const outside = ids.findIndex((id) => id < 0 || id >= vocabSize);
  if (outside >= 0) return `its id ${outside} is ${ids[outside]}, and the vocabulary has ${vocabSize} tokens`;
  const entropies = known ?? new Float64Array(ids.length);
  for (const [name, values] of [
    ['log-probs', logprobs],
    ['entropies', entropies],
  ] as const) {
    if (!isTyped(values, 'Float64Array'))
      return `its ${name} must be a Float64Array, not ${shownValue(values)}`;
    if (values.length !== ids.length) return `it has ${values.length} ${name} for ${ids.length} ids`;
    const bad = values.findIndex((value) => !Number.isFinite(value));
    if (bad >= 0) return `its ${name} have ${values[bad]} at token ${bad}`;
  }
  const positive = logprobs.findIndex((value) => value > ROUNDING);
  if (positive >= 0) return `its log-prob of token ${positive} is ${logprobs[positive]}, and none is above 0`;
  const negative = entropies.findIndex((value) => value < -ROUNDING);
  if (negative >= 0) return `its entropy at token ${negative} is ${entropies[negative]}, and none is below 0`;
  return null;
}

/** Whether the completion ends as `finish` says, or what is wrong. */
function faultOfEnd({ ids, finish }: SampledCompletion, stopIds: Int32Array): string | null {
  if (finish === 'cancelled' || finish === 'partial') return null;
  if (ids.length === 0) return 'it has no ids';
  const stop = ids.findIndex((id) => stopIds.includes(id));
  const last = ids.length - 1;
  if (stop >= 0 && stop < last) return `it goes on after the stop id ${ids[stop]} at token ${stop}`;
  if (finish === 'stop' && stop < 0)
    return `its finish is "stop", but its last id ${ids[last]} is no stop id`;
  if (finish === 'length' && stop === last)
    return `its finish is "length", but it ends with the stop id ${ids[last]}`;
  return null;
}

const COUNTS = ['thinkingTokens', 'thinkingClosed', 'laterThinkingTokens', 'answerTokens'] as const;

/** Written text and counts need not be those of the ids, but must be a text and counts. */
function faultOfScript(completion: SampledCompletion): string | null {
  const { text } = completion;
  if (text !== undefined && typeof text !== 'string')
    return `its text must be a string, not ${shownValue(text)}`;
  for (const name of COUNTS) {
    const value: unknown = completion[name];
    if (value === undefined) continue;
    if (name === 'thinkingClosed') {
      if (typeof value !== 'boolean') return `its ${name} must be true or false, not ${shownValue(value)}`;
    } else if (!Number.isSafeInteger(value) || (value as number) < 0) {
      return `its ${name} must be a whole number of tokens, not ${shownValue(value)}`;
    }
  }
  return null;
}

const failed = (message: string, cause?: unknown) => new AcoerError('SAMPLER_FAILED', message, { cause });

class Border {
  /** Which samples of each prompt have come. */
  private readonly seen: boolean[][];

  constructor(
    private readonly prompts: readonly SamplePrompt[],
    private readonly settings: SampleSettings,
    private readonly border: SamplingBorder,
    /** The completions come from our own engine sampler, which makes text and counts from the ids. */
    private readonly own: boolean,
  ) {
    this.seen = prompts.map(({ numSamples }) => new Array<boolean>(numSamples).fill(false));
  }

  /** @throws SAMPLER_FAILED naming the completion and what is wrong with it */
  completion(given: unknown): Completion {
    if (!isRecord(given)) throw failed(`The sampler gave ${shownValue(given)} instead of a completion.`);
    const completion = given as unknown as SampledCompletion;
    const prompt = this.promptOf(completion);
    this.take(completion, prompt);
    const fault =
      (FINISHES.includes(completion.finish)
        ? null
        : `its finish must be "stop", "length" or "cancelled", not ${shownValue(completion.finish)}`) ??
      this.faultOfEndingEarly(completion) ??
      this.faultOfCancelling(completion) ??
      faultOfTokens(completion, this.border.vocabSize, prompt.maxNewTokens) ??
      (completion.scripted === true
        ? faultOfScript(completion)
        : faultOfEnd(completion, this.settings.stopIds));
    if (fault !== null) throw this.bad(completion, fault);
    return this.own ? (completion as Completion) : this.measured(completion, prompt.thinkOpened);
  }

  /** @throws SAMPLER_FAILED unless every completion has come, or the caller has cancelled the rest */
  assertComplete(): void {
    if (this.settings.signal?.aborted === true) return;
    this.seen.forEach((samples, prompt) => {
      const missing = samples.indexOf(false);
      if (missing < 0) return;
      const name = this.border.nameOf(prompt, this.prompts[prompt]!.firstSample + missing);
      throw failed(`The sampler ended without ${name}.`);
    });
  }

  /** @throws SAMPLER_FAILED for a report of progress that names what was not asked for */
  progress(given: unknown): SampleProgress {
    const { promptTokens, inFlight } = (isRecord(given) ? given : {}) as Partial<SampleProgress>;
    const counts = (value: unknown) => Number.isInteger(value) && (value as number) >= 0;
    const known = (one: unknown) =>
      isRecord(one) &&
      Object.hasOwn(this.prompts, one['prompt'] as number) &&
      counts(one['sample']) &&
      counts(one['tokens']);
    if (!counts(promptTokens) || !Array.isArray(inFlight) || !inFlight.every(known)) {
      throw failed(
        'The sampler gave onProgress something other than { promptTokens, inFlight: [{ prompt, sample, tokens }] } of the prompts it was asked for.',
      );
    }
    return given as SampleProgress;
  }

  private promptOf({ prompt }: SampledCompletion): SamplePrompt {
    const found = Number.isInteger(prompt) ? this.prompts[prompt] : undefined;
    if (found !== undefined) return found;
    throw failed(
      `The sampler gave a completion of prompt ${shownValue(prompt)}; it was asked for prompts 0 to ${this.prompts.length - 1}.`,
    );
  }

  /** Marks the completion as come. */
  private take({ prompt, sample }: SampledCompletion, { firstSample, numSamples }: SamplePrompt): void {
    const place = Number.isInteger(sample) ? sample - firstSample : -1;
    if (place < 0 || place >= numSamples) {
      const name = this.border.nameOf(prompt, firstSample);
      throw failed(
        `The sampler gave sample ${shownValue(sample)} where ${numSamples} samples from ${name} on were asked for.`,
      );
    }
    const samples = this.seen[prompt]!;
    if (samples[place]) throw failed(`The sampler gave ${this.border.nameOf(prompt, sample)} twice.`);
    samples[place] = true;
  }

  private faultOfEndingEarly({ finish }: SampledCompletion): string | null {
    if (finish !== 'partial' || this.settings.completeGroups !== undefined) return null;
    return 'its finish is "partial", and it was to be sampled to its end';
  }

  private faultOfCancelling({ finish }: SampledCompletion): string | null {
    if (finish !== 'cancelled' || this.own || this.settings.signal?.aborted === true) return null;
    return 'its finish is "cancelled", and nobody has cancelled it';
  }

  /** With what the sampler may leave out: entropies, and text and counts, which must be those of the ids. */
  private measured(completion: SampledCompletion, thinkOpened: boolean): Completion {
    const { tokenizer } = this.border;
    const { ids } = completion;
    const text = tokenizer.decode(ids, { skipSpecial: true });
    const counts = measureCompletion(ids, tokenizer, thinkOpened);
    const { scripted, ...handed } = completion;
    const given = { ...handed, entropies: handed.entropies ?? null };
    if (scripted === true) {
      const written = Object.entries(given).filter(([, value]) => value !== undefined);
      return { text, ...counts, ...(Object.fromEntries(written) as typeof given) };
    }
    if ((given.text ?? text) !== text) {
      throw this.bad(
        completion,
        `its text ${shownValue(given.text)} is not that of its ids, ${shownValue(text)}; leave it out, or decode the ids with the tokenizer's decode(ids, { skipSpecial: true })`,
      );
    }
    for (const name of COUNTS) {
      if ((given[name] ?? counts[name]) === counts[name]) continue;
      throw this.bad(
        completion,
        `its ${name} is ${shownValue(given[name])}, and its ids have ${counts[name]}; leave it out, and it is counted`,
      );
    }
    return { ...given, text, ...counts };
  }

  private bad({ prompt, sample }: SampledCompletion, fault: string): AcoerError {
    return failed(`The sampler gave a wrong completion: of ${this.border.nameOf(prompt, sample)}, ${fault}.`);
  }
}

/** Errors whose sentence says already that it is the sampler which has failed. */
const SAID_BY_SAMPLER: readonly string[] = ['SAMPLER_FAILED', 'SAMPLER_LOST'];
/** The same while it opens, when its settings and files are looked at, too. */
const SAID_WHILE_OPENING = [...SAID_BY_SAMPLER, 'BAD_CONFIG', 'BAD_INPUT', 'INTERRUPTED'];

const isSaid = (error: unknown, codes: readonly string[]): boolean => codes.includes(errorCode(error) ?? '');

/** Errors of the port's own contract; the others are faults of the sampler. */
function isExpected(error: unknown, signal: AbortSignal | undefined): boolean {
  if (signal?.aborted === true || isSaid(error, SAID_BY_SAMPLER)) return true;
  return ['OUT_OF_MEMORY', 'NOT_FINITE'].includes(errorCode(error) ?? '');
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;

/** What a sampler may count, and of what. */
const OPTIONAL_COUNTS = [
  ['retries', 'requests'],
  ['proposedTokens', 'tokens'],
  ['acceptedTokens', 'tokens'],
] as const satisfies readonly (readonly [keyof SampleStats, string])[];

function checkedStats(stats: unknown): SampleStats {
  const counts: Record<string, unknown> = isRecord(stats) ? stats : {};
  if (!isCount(counts['newTokens'])) {
    throw failed(
      `The sampler's promise resolved to ${shownValue(stats)}, not to statistics with newTokens, the number of sampled tokens.`,
    );
  }
  for (const [name, what] of OPTIONAL_COUNTS) {
    const count = counts[name];
    if (count === undefined || isCount(count)) continue;
    throw failed(
      `The sampler's statistics have ${shownValue(count)} as ${name}, which must be a number of ${what}.`,
    );
  }
  return stats as SampleStats;
}

/** Lets a sampler of the user's open what it works with. @throws SAMPLER_FAILED when it throws what is not of the port */
export async function openSampler(sampler: Sampler, signal?: AbortSignal): Promise<void> {
  const open = async () => sampler.open?.(signal);
  try {
    await abortable(open(), signal);
  } catch (error) {
    if (signal?.aborted === true || isSaid(error, SAID_WHILE_OPENING)) throw error;
    throw failed(`The sampler failed to open: ${errorMessage(error)}`, error);
  }
}

/** Lets a sampler of the user's free what it has opened. @param warn what to do with the sentence of a failure */
export async function disposeSampler(sampler: Sampler, warn: (message: string) => void): Promise<void> {
  try {
    await sampler.dispose?.();
  } catch (error) {
    warn(`The sampler failed to close: ${errorMessage(error)}`);
  }
}

/** Tells a sampler of the user's that the weights have moved. @throws SAMPLER_FAILED when it throws */
export async function follow(sampler: Sampler, policyVersion: number, signal?: AbortSignal): Promise<void> {
  try {
    const work = Promise.resolve(sampler.follow(policyVersion, signal));
    await (sampler instanceof EngineSampler ? work : abortable(work, signal));
  } catch (error) {
    if (sampler instanceof EngineSampler || isExpected(error, signal)) throw error;
    throw failed(`The sampler failed to follow the weights: ${errorMessage(error)}`, error);
  }
}

/**
 * Samples `prompts`; `onCompletion` gets each completion once, checked. What comes after the end, or after the first
 * fault, is ignored. A sampler of the user's is not waited for once `settings.signal` has aborted.
 *
 * @throws SAMPLER_FAILED for a completion that is wrong, repeated or missing, and for any error of the sampler
 * that is not of the port's contract, which is its `cause`
 */
export async function sampleChecked(
  sampler: Sampler,
  prompts: readonly SamplePrompt[],
  settings: SampleSettings,
  border: SamplingBorder,
  onCompletion: (completion: Completion) => void,
): Promise<SampleStats> {
  const own = sampler instanceof EngineSampler;
  const checks = new Border(prompts, settings, border, own);
  const { signal, onProgress } = settings;
  let open = true;
  let fault: { error: unknown } | null = null;
  /** Runs `work` while nothing has failed. The sampler may swallow what it throws. */
  const guard = (work: () => void): void => {
    if (!open) return;
    try {
      work();
    } catch (error) {
      open = false;
      fault = { error };
      throw error;
    }
  };
  const take = (given: SampledCompletion) => guard(() => onCompletion(checks.completion(given)));
  const report = onProgress && ((given: SampleProgress) => guard(() => onProgress(checks.progress(given))));
  const begin = async () => sampler.sample(prompts, { ...settings, onProgress: report }, take);
  let stats: unknown;
  try {
    stats = await (own ? begin() : abortable(begin(), signal));
  } catch (error) {
    const first = fault as { error: unknown } | null;
    if (first !== null) throw first.error;
    if (own || isExpected(error, signal)) throw error;
    throw failed(`The sampler failed: ${errorMessage(error)}`, error);
  } finally {
    open = false;
  }
  const first = fault as { error: unknown } | null;
  if (first !== null) throw first.error;
  checks.assertComplete();
  return own ? (stats as SampleStats) : checkedStats(stats);
}
