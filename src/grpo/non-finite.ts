/** Numbers of a step that are not finite: what the first one is and where, and what its phase worked on. */
import type { SamplerPlace } from '../engine/errors';
import type { GeneratedSequence, GenerateRequest } from '../engine/types';
import { AcoerError, errorCode } from '../base/errors';
import type { Group, Rollout } from '../base/types';
import type { Ranks } from '../ranks';
import { unrewarded, type BatchRewards, type GroupOutline, type Sample, type SampledPrompt } from './sample';

/** The phases of a step that check their numbers, in order; in `step` the optimiser checks the gradient. */
export const STEP_PHASES = ['generate', 'advantages', 'score', 'accumulate', 'step'] as const;
export type StepPhase = (typeof STEP_PHASES)[number];

export interface NonFinite {
  phase: StepPhase;
  /** The quantity, e.g. "the log-prob". */
  what: string;
  /** Position of the completion's prompt in the data order, and its number; null: concerns the whole step. */
  promptIndex: number | null;
  sample: number | null;
  /** Completion token, from 0. */
  token: number | null;
}

/** What a phase before the update had worked on when it failed. */
export interface Evidence {
  /** The completions that had ended (`generate`), or the whole batch. */
  samples: readonly Sample[];
  /** Given by `generate` only. */
  requests?: readonly { promptIndex: number; request: Omit<GenerateRequest, 'policy'> }[];
  /** Given by `advantages` only. */
  rewarded?: { groups: readonly GroupOutline[]; rewards: BatchRewards; pressure: number };
}

/** Thrown by the phases before the update. */
export class NonFiniteError extends AcoerError {
  constructor(
    readonly found: NonFinite,
    readonly evidence: Evidence,
    cause?: unknown,
  ) {
    super('NOT_FINITE', `${describeNonFinite(found)}.`, { cause });
  }
}

export function describeNonFinite({ what, promptIndex, sample, token }: NonFinite): string {
  const place = [
    ...(promptIndex === null ? [] : [`prompt ${promptIndex}`]),
    ...(sample === null ? [] : [`sample ${sample}`]),
    ...(token === null ? [] : [`completion token ${token}`]),
  ];
  const at = place.length === 0 ? '' : ` at ${place.join(', ')}`;
  return `${what} ${what.endsWith('logits') ? 'are' : 'is'} not finite${at}`;
}

/**
 * Runs `work` on every rank. Returns what each made, in rank order.
 * @throws NonFiniteError on every rank if a number was not finite on one; otherwise as `Ranks.gather`
 */
export async function onEveryRank<T>(ranks: Ranks, what: string, work: () => Promise<T>): Promise<T[]> {
  type Share = { made: T } | Pick<NonFiniteError, 'found' | 'evidence'>;
  let own: NonFiniteError | null = null;
  const shares = await ranks.gather(what, async (): Promise<Share> => {
    try {
      return { made: await work() };
    } catch (error) {
      if (!(error instanceof NonFiniteError)) throw error;
      own = error;
      return { found: error.found, evidence: error.evidence };
    }
  });
  return shares.map((share, rank) => {
    if ('made' in share) return share.made;
    // All ranks refuse the step for the same number; the rank that found it still has the cause.
    throw rank === ranks.rank ? own! : new NonFiniteError(share.found, share.evidence);
  });
}

const placeOf = ({ promptIndex, sample }: Sample) => ({ promptIndex, sample });

/** A sampled completion; `request` is the place of its prompt. */
export type Ended = Pick<GeneratedSequence, 'request'> &
  Pick<Rollout, 'sample' | 'ids' | 'logprobs' | 'entropies'>;

/** NOT_FINITE from the sampler as a NonFiniteError; any other error unchanged. */
export function generationError(
  error: unknown,
  prompts: readonly SampledPrompt[],
  requests: readonly GenerateRequest[],
  ended: readonly Ended[],
): unknown {
  if (errorCode(error) !== 'NOT_FINITE') return error;
  const { request, sample, token } = error as Partial<SamplerPlace>;
  const prompt = request === undefined ? undefined : prompts[request];
  const { firstSample = 0, firstToken = 0 } = requests[request ?? NaN] ?? {};
  const found: NonFinite = {
    phase: 'generate',
    what: "the sampler's logits",
    promptIndex: prompt?.promptIndex ?? null,
    sample: sample === undefined ? null : firstSample + sample,
    token: token === undefined ? null : firstToken + token,
  };
  const evidence = {
    samples: endedSamples(ended, prompts),
    requests: requests.map(({ policy: _, ...request }, i) => {
      return { promptIndex: prompts[i]!.promptIndex, request };
    }),
  };
  return new NonFiniteError(found, evidence, error);
}

/** Sampled completions as samples that have no reward yet. */
export const endedSamples = (ended: readonly Ended[], prompts: readonly SampledPrompt[]): Sample[] =>
  ended.map((one) => unrewarded(prompts[one.request]!, one));

/** @throws NonFiniteError naming the first completion whose reward or advantage is not finite */
export function checkAdvantages(
  samples: readonly Sample[],
  rewarded: { groups: readonly Group[]; rewards: BatchRewards; pressure: number },
): void {
  const found = firstBadAdvantage(samples);
  if (found !== null) throw new NonFiniteError(found, { samples, rewarded });
}

export function firstBadAdvantage(samples: readonly Sample[]): NonFinite | null {
  const bad = samples.find((sample) => !Number.isFinite(sample.advantage));
  if (bad === undefined) return null;
  const what = `the advantage for a reward of ${bad.reward}`;
  return { phase: 'advantages', what, ...placeOf(bad), token: null };
}

/**
 * @param values one per completion token of `members`
 * @param evidence what the phase worked on
 * @throws NonFiniteError naming the completion and token of the first one that is not finite
 */
export function checkTokens(
  phase: 'score' | 'accumulate',
  what: string,
  members: readonly Sample[],
  values: Float64Array,
  evidence: readonly Sample[] = members,
): void {
  const place = values.findIndex((value) => !Number.isFinite(value));
  if (place === -1) return;
  let start = 0;
  for (const member of members) {
    const token = place - start;
    start += member.completionIds.length;
    if (place >= start) continue;
    throw new NonFiniteError({ phase, what, ...placeOf(member), token }, { samples: evidence });
  }
}

/** @throws NonFiniteError unless the loss of a pass over `members` is finite */
export function checkLoss(loss: number, members: readonly Sample[]): void {
  if (Number.isFinite(loss)) return;
  throw new NonFiniteError({ phase: 'accumulate', what: 'the loss', ...NOWHERE }, { samples: members });
}

/** The optimiser refused the gradient. */
export function gradientNonFinite(gradNorm: number): NonFinite {
  return { phase: 'step', what: `the gradient's norm (${gradNorm})`, ...NOWHERE };
}

const NOWHERE = { promptIndex: null, sample: null, token: null } as const;
