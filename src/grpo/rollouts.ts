/** Samples a batch of groups. Each completion is graded when it ends, while the others are still decoding. */
import { isPromise, type Work } from '../base/deadline';
import { AcoerError, errorCode } from '../base/errors';
import type { Config } from '../config';
import type { GenerateRequest } from '../engine/types';
import type { Judgement } from '../judges';
import { streamSeed } from '../base/rng';
import {
  DecodeTracker,
  follow,
  requestOf,
  sampleChecked,
  type Completion,
  type SamplePrompt,
  type SampleProgress,
  type SampleSettings,
  type SampleStats,
} from '../sampling';
import type { Group, Prompt, Rollout } from '../base/types';
import { abortable } from '../base/abortable';
import type { StepContext } from './context';
import { dealtByLength, type Samples } from '../base/dealing';
import { memoryError } from './memory';
import { generationError, onEveryRank, type Ended as EndedSequence } from './non-finite';
import { completionName, type SampledPrompt } from './sample';
import { head, type Watch } from './watch';

/** What a rank has sampled. */
export interface SampledShare {
  /** Sampled tokens. */
  newTokens: number;
  elapsedMs: number;
  /** Requests that the sampler had to make again; absent: it does not count them. */
  retries?: number;
  /** Tokens that speculation proposed; absent: the sampler does not count them. */
  proposedTokens?: number;
  acceptedTokens?: number;
}

export interface SampledGroups {
  groups: Group[];
  /** By rank. */
  shares: SampledShare[];
}

/** A completion, graded, and the place of its prompt in the batch. */
interface Placed {
  place: number;
  rollout: Omit<Rollout, 'prompt'>;
}

/** The samples of a prompt that this rank makes. */
interface Part extends Samples {
  prompt: Prompt;
}

function samplePrompts(
  { config }: StepContext,
  parts: readonly Part[],
  seed: number | bigint,
): SamplePrompt[] {
  return parts.map(({ prompt: { ids, index, thinkOpened }, first, count }) => ({
    ids,
    thinkOpened,
    firstSample: first,
    numSamples: count,
    seed: streamSeed(seed, 'sample', index),
    maxNewTokens: config.maxCompletionLength,
  }));
}

export function sampleSettings({ config, tokenizer, signal }: StepContext): SampleSettings {
  const { temperature, topK, topP, minP, repetitionPenalty, kvBytes, kvCacheDtype, numSpeculativeTokens } =
    config;
  return {
    sampling: { temperature, topK, topP, minP, repetitionPenalty },
    stopIds: Int32Array.from(tokenizer.eosIds),
    kvBytes: kvBytes ?? undefined,
    kvCacheDtype,
    numSpeculativeTokens,
    signal,
  };
}

/** What the sampler's statistics say of a rank's share; what it does not count is left out. */
export const shareOf = (
  { newTokens, retries, proposedTokens, acceptedTokens }: SampleStats,
  elapsedMs: number,
): SampledShare => ({
  newTokens,
  elapsedMs,
  ...(retries !== undefined && { retries }),
  ...(proposedTokens !== undefined && { proposedTokens }),
  ...(acceptedTokens !== undefined && { acceptedTokens }),
});

/** Tells the watchdog and the caller of the loop how far the sampler is. */
export const following =
  (watch: Watch, tracker: DecodeTracker, tell: () => void) =>
  (progress: SampleProgress): void => {
    if (!tracker.report(progress)) return;
    watch.progress();
    tell();
  };

/** Judged at once, while the engine's own thread keeps decoding; a promise if the judge is a user's. */
export function toRollout(
  { grade, watch }: StepContext,
  prompt: Prompt,
  { prompt: _, ...completion }: Completion,
): Work<Placed['rollout']> {
  const { text, sample, ids } = completion;
  const { problem, thinkOpened } = prompt;
  const note = () => `grading ${completionName(prompt, sample)}: ${head(text)}`;
  const judged = watch.during('grade', note, () => grade({ ...completion, thinkOpened }, problem));
  const finish = completion.finish as Rollout['finish'];
  const made = (judgement: Judgement) => ({ ...completion, finish, totalTokens: ids.length, ...judgement });
  return isPromise(judged) ? judged.then(made) : made(judged);
}

/**
 * `numGenerations` completions of every prompt, graded; groups and samples in order. Draws depend only on
 * `seed`, the prompt's index and the sample's number, so which rank makes a completion is all the same.
 * @throws NonFiniteError when the model's logits are not finite
 */
export async function sampleGroups(
  context: StepContext,
  prompts: readonly Prompt[],
  seed: number | bigint,
): Promise<SampledGroups> {
  const { config, ranks, lengths } = context;
  const expected = prompts.map((prompt) => lengths.of(prompt));
  const hand = dealtByLength(ranks.size, expected, config.numGenerations)[ranks.rank]!;
  const parts = hand.map((samples): Part => ({ ...samples, prompt: prompts[samples.place]! }));
  const shares = await onEveryRank(ranks, 'sampling', () => sampleParts(context, parts, seed));
  const groups = prompts.map((prompt): Group => ({ prompt, rollouts: [] }));
  for (const { place, rollout } of shares.flatMap(({ placed }) => placed)) {
    const { prompt, rollouts } = groups[place]!;
    rollouts[rollout.sample] = { ...rollout, prompt };
  }
  lengths.observe(groups);
  return { groups, shares: shares.map(({ placed: _, ...share }) => share) };
}

/** Completions of this rank as they end, each at the place of its key, so that none can take another's reward. */
class Ended {
  private readonly rollouts: (Placed['rollout'] | undefined)[][];
  /** Tell the watchdog that a completion is no longer in flight. */
  private readonly ends: (() => void)[][];
  readonly total: number;
  done = 0;

  constructor(
    watch: Watch,
    private readonly parts: readonly Part[],
  ) {
    this.total = parts.reduce((sum, { count }) => sum + count, 0);
    this.rollouts = parts.map(({ count }) => new Array<Placed['rollout'] | undefined>(count));
    this.ends = parts.map(({ prompt, first, count }) =>
      Array.from({ length: count }, (_, i) =>
        watch.begin(() => ({
          sample: completionName(prompt, first + i),
          problem: head(prompt.problem.question),
        })),
      ),
    );
  }

  add(part: number, rollout: Placed['rollout']): void {
    const place = rollout.sample - this.parts[part]!.first;
    this.rollouts[part]![place] = rollout;
    this.ends[part]![place]!();
    this.done++;
  }

  /** In order. */
  get all(): { part: number; rollout: Placed['rollout'] }[] {
    return this.rollouts.flatMap((own, part) =>
      own.flatMap((rollout) => (rollout === undefined ? [] : [{ part, rollout }])),
    );
  }
}

/** What sampling has failed with, with what is needed to make the failure again. */
export function samplingError(
  error: unknown,
  config: Config,
  prompts: readonly SampledPrompt[],
  requests: readonly GenerateRequest[],
  ended: readonly EndedSequence[],
): unknown {
  if (errorCode(error) === 'OUT_OF_MEMORY') return memoryError(error, 'rollout', config);
  return generationError(error, prompts, requests, ended);
}

/** The completions of this rank. */
async function sampleParts(
  context: StepContext,
  parts: readonly Part[],
  seed: number | bigint,
): Promise<SampledShare & { placed: Placed[] }> {
  const { model, policy, sampler, tokenizer, onDecoded, watch, signal } = context;
  const started = performance.now();
  const ended = new Ended(watch, parts);
  const tracker = new DecodeTracker();
  tracker.begin(parts.map(({ prompt }) => prompt));
  const tell = () => onDecoded?.({ done: ended.done, total: ended.total, ...tracker.decoding });
  const asked = samplePrompts(context, parts, seed);
  const settings = { ...sampleSettings(context), onProgress: following(watch, tracker, tell) };
  await follow(sampler, policy.version, signal);
  const judging: Promise<void>[] = [];
  const onCompletion = (completion: Completion) => {
    const { prompt: part, sample, ids } = completion;
    tracker.ended({ prompt: part, sample, tokens: ids.length });
    const judged = (rollout: Placed['rollout']) => {
      ended.add(part, rollout);
      tell();
    };
    const rollout = toRollout(context, parts[part]!.prompt, completion);
    if (!isPromise(rollout)) return judged(rollout);
    const work = rollout.then(judged);
    // Awaited when all are sampled: until then a failure must not count as unhandled.
    work.catch(() => undefined);
    judging.push(work);
  };
  const nameOf = (part: number, sample: number) => completionName(parts[part]!.prompt, sample);
  const border = { tokenizer, vocabSize: model.info.vocabSize, nameOf };
  const stats = await sampleChecked(sampler, asked, settings, border, onCompletion).catch(
    (error: unknown) => {
      const requests = asked.map((prompt) => requestOf(prompt, settings, policy));
      const places = parts.map(({ prompt: { index, ids } }) => ({ promptIndex: index, promptIds: ids }));
      const sampled = ended.all.map(({ part, rollout }) => ({ ...rollout, request: part }));
      throw samplingError(error, context.config, places, requests, sampled);
    },
  );
  await abortable(Promise.all(judging), signal);
  const { all } = ended;
  if (all.length !== ended.total || all.some(({ rollout }) => rollout.finish === 'cancelled')) {
    throw new AcoerError('CANCELLED', 'Generation ended before every completion was sampled.');
  }
  const placed = all.map(({ part, rollout }) => ({ place: parts[part]!.place, rollout }));
  return { placed, ...shareOf(stats, performance.now() - started) };
}
