/** Rewards of a generated batch: every reward of every completion, their weighted sum, the new states. */
import { isPromise, late, withinTime, withTimeout, type Work } from '../base/deadline';
import { AcoerError, errorMessage } from '../base/errors';
import { shownJson } from '../base/json';
import { copiedProblem } from '../judges';
import { asSent, Ranks, shareOf } from '../ranks';
import type { RewardScore, RewardView, WeightedReward } from '../rewards/types';
import type { Group, Prompt, Reward, Rollout } from '../base/types';
import { columnsOf, meansOf, notesFault } from './notes';
import { completionName, type BatchRewards } from './sample';
import { head, NO_WATCH, type Watch } from './watch';

export interface RewardSettings {
  step: number;
  maxLength: number;
  formatWeight: number;
  timeoutMs: number;
  watch?: Watch;
  /** Each scores its share of the completions. Default: this process is the only one. */
  ranks?: Ranks;
}

const place = ({ prompt, sample }: Rollout) => completionName(prompt, sample);

interface Call {
  rollout: Rollout;
  view: RewardView<unknown>;
}

/** Calls that return at once share one time limit for this long, because a limit costs a thread. */
const SHARED_MS = 50;

/**
 * Starts every call and returns one function per call, which returns its result or throws its error. A call
 * that never returns (an endless loop) is ended after `timeoutMs`, and no other is started.
 */
function beginCalls(
  { reward }: WeightedReward,
  calls: readonly Call[],
  timeoutMs: number,
  watch: Watch,
): (() => Work<RewardScore>)[] {
  const begun: (() => Work<RewardScore>)[] = [];
  const begin = ({ rollout, view }: Call): void => {
    watch.note(() => `reward "${reward.name}", ${place(rollout)}: ${head(rollout.text)}`);
    try {
      const work = reward.score(rollout, view);
      // Awaited later: until then a failure must not count as unhandled.
      if (isPromise(work)) work.catch(() => undefined);
      begun.push(() => work);
    } catch (error) {
      begun.push(() => {
        throw error;
      });
    }
  };
  const some = () => {
    const started = performance.now();
    do begin(calls[begun.length]!);
    while (begun.length < calls.length && performance.now() - started < SHARED_MS);
  };
  while (begun.length < calls.length) {
    if (reward.keepsTime) some();
    else if (withinTime(timeoutMs + SHARED_MS, some) === null)
      throw failure(reward, calls[begun.length]!, late(timeoutMs));
  }
  return begun;
}

function failure({ name }: { name: string }, { rollout }: Call, cause: unknown): AcoerError {
  const message = `Reward "${name}" failed on ${place(rollout)}: ${errorMessage(cause)}`;
  return new AcoerError('REWARD_FAILED', message, { cause });
}

/**
 * Checked scores of one reward, in the order of the calls.
 * @param names of all rewards of the run
 * @throws REWARD_FAILED naming the reward and the sample
 */
export async function scoreCalls(
  entry: WeightedReward,
  calls: readonly Call[],
  timeoutMs: number,
  watch = NO_WATCH,
  names: readonly string[] = [entry.reward.name],
): Promise<RewardScore[]> {
  const { reward } = entry;
  const ends = calls.map(({ rollout }) =>
    watch.begin(() => ({ reward: reward.name, sample: place(rollout), text: head(rollout.text) })),
  );
  const begun = beginCalls(entry, calls, timeoutMs, watch);
  return Promise.all(
    begun.map(async (begin, i) => {
      const score = await answer(entry, calls[i]!, begin, timeoutMs, names);
      ends[i]!();
      return score;
    }),
  );
}

async function answer(
  { reward }: WeightedReward,
  call: Call,
  begin: () => Work<RewardScore>,
  timeoutMs: number,
  names: readonly string[],
): Promise<RewardScore> {
  let score: RewardScore;
  try {
    const work = begin();
    score = await (reward.keepsTime ? work : withTimeout(work, timeoutMs));
  } catch (cause) {
    throw failure(reward, call, cause);
  }
  if (!Number.isFinite(score?.value)) {
    const found = String(score?.value);
    throw new AcoerError(
      'REWARD_FAILED',
      `Reward "${reward.name}" gave ${found} for ${place(call.rollout)}.`,
    );
  }
  const fault = notesFault(score, names);
  if (fault === null) return score;
  throw new AcoerError('REWARD_FAILED', `Reward "${reward.name}" ${fault} (${place(call.rollout)}).`);
}

function copiedRollout(rollout: Rollout, prompt: Prompt): Rollout {
  const { ids, logprobs, entropies, verdict } = rollout;
  return {
    ...rollout,
    prompt,
    ids: ids.slice(),
    logprobs: logprobs.slice(),
    entropies: entropies?.slice() ?? null,
    verdict: { ...verdict },
  };
}

/** For a user's function, which may write into it. At 20 bytes a token a copy costs milliseconds. */
function copiedGroups(groups: readonly Group[]): Group[] {
  return groups.map(({ prompt: own, rollouts }) => {
    const prompt = { ...own, ids: own.ids.slice(), problem: copiedProblem(own.problem) };
    return { prompt, rollouts: rollouts.map((rollout) => copiedRollout(rollout, prompt)) };
  });
}

/** The scores of each reward for this rank's share of the completions; every call sees the whole batch. */
async function scoreShare(
  ranks: Ranks,
  groups: readonly Group[],
  weighted: readonly WeightedReward[],
  states: Readonly<Record<string, unknown>>,
  { step, maxLength, timeoutMs, watch }: RewardSettings,
): Promise<RewardScore[][]> {
  const names = weighted.map(({ reward }) => reward.name);
  const all: RewardScore[][] = [];
  for (const entry of weighted) {
    const state = states[entry.reward.name];
    const batch = copiedGroups(groups);
    const calls = batch.flatMap((group) =>
      group.rollouts.map((rollout) => ({ rollout, view: { step, maxLength, group, batch, state } })),
    );
    const scores = await scoreCalls(entry, shareOf(ranks, calls), timeoutMs, watch, names);
    // Copies, which the reward's code cannot change any more.
    all.push(
      scores.map(({ value, columns, metrics }) => ({
        value,
        ...(columns && { columns: { ...columns } }),
        ...(metrics && { metrics: { ...metrics } }),
      })),
    );
  }
  return all;
}

/** Adds to each completion's reward what was noted of it. @throws REWARD_FAILED for a column of two rewards */
function addColumns(rewards: readonly Reward[], scores: readonly RewardScore[][]): void {
  for (const [i, reward] of rewards.entries()) {
    const { columns, twice } = columnsOf(scores.map((own) => own[i]!));
    if (twice !== undefined) {
      throw new AcoerError('REWARD_FAILED', `Two rewards of the run name a column ${shownJson(twice)}.`);
    }
    if (columns !== undefined) reward.columns = columns;
  }
}

/** Scores one generated batch with the rewards' states as they were before it. */
export async function scoreBatch(
  groups: readonly Group[],
  weighted: readonly WeightedReward[],
  states: Readonly<Record<string, unknown>>,
  settings: RewardSettings,
): Promise<BatchRewards> {
  const { formatWeight, ranks = new Ranks() } = settings;
  const shares = await ranks.gather('the rewards', () =>
    scoreShare(ranks, groups, weighted, states, settings),
  );
  const rollouts = groups.flatMap((group) => group.rollouts);
  const scores = weighted.map((_, k) => shares.flatMap((share) => share[k]!));
  const functions = weighted.map(({ reward: { name }, weight }, k) => {
    return { name, weight, values: scores[k]!.map(({ value }) => value) };
  });
  if (formatWeight > 0) {
    const values = rollouts.map(({ format }) => (format ? 1 : 0));
    functions.push({ name: 'format', weight: formatWeight, values });
  }
  const rewards: Reward[] = rollouts.map(() => ({ total: 0, parts: {} }));
  const perFunction: Record<string, Float64Array> = {};
  const weights: Record<string, number> = {};
  for (const { name, weight, values } of functions) {
    weights[name] = weight;
    perFunction[name] = Float64Array.from(values);
    for (const [i, value] of values.entries()) {
      rewards[i]!.parts[name] = value * weight;
      rewards[i]!.total += value * weight;
    }
  }
  addColumns(rewards, scores);
  const metrics = Object.fromEntries(weighted.map(({ reward }, k) => [reward.name, meansOf(scores[k]!)]));
  return { rewards, perFunction, weights, metrics };
}

function observed<T>(observe: () => Work<T>, timeoutMs: number): Promise<T> {
  const begun = withinTime(timeoutMs, observe);
  if (begun === null) throw late(timeoutMs);
  return withTimeout(begun.value, timeoutMs);
}

/** The rewards' states after the batch: only here does a controller advance, and on the first rank alone. */
export async function observeBatch(
  groups: readonly Group[],
  weighted: readonly WeightedReward[],
  states: Readonly<Record<string, unknown>>,
  { step, maxLength, timeoutMs, watch, ranks = new Ranks() }: RewardSettings,
): Promise<Record<string, unknown>> {
  return ranks.fromFirst('observing the batch', async () => {
    const next: Record<string, unknown> = {};
    for (const { reward } of weighted) {
      try {
        watch?.note(() => `reward "${reward.name}" observes the batch`);
        const batch = copiedGroups(groups);
        const observe = () => reward.observe(states[reward.name], { step, maxLength, batch });
        const state = await (reward.keepsTime ? observe() : observed(observe, timeoutMs));
        // What cannot be sent to the other ranks must fail here, where the reward is known.
        next[reward.name] = ranks.size > 1 ? asSent(state) : state;
      } catch (cause) {
        const message = `Reward "${reward.name}" failed to observe the batch of step ${step + 1}: ${errorMessage(cause)}`;
        throw new AcoerError('REWARD_FAILED', message, { cause });
      }
    }
    return next;
  });
}
