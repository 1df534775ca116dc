/** Sampling a batch of groups; each completion is graded when it ends, while the others still decode. */
import { generateFitting } from '../fitting';
import type { GenerateRequest, GenerateStats, GeneratedSequence } from '../engine/types';
import { AcoerError, errorCode } from '../errors';
import { streamSeed } from '../rng';
import { measureThinking } from '../tokenizer';
import type { Group, Prompt, Rollout } from '../types';
import type { LoopContext } from './context';
import { memoryError } from './memory';

export interface SampledGroups {
  groups: Group[];
  stats: GenerateStats;
}

function requestsFor(
  context: LoopContext,
  prompts: readonly Prompt[],
  seed: number | bigint,
): GenerateRequest[] {
  const { config, policy, tokenizer } = context;
  const { temperature, topK, topP, minP, repetitionPenalty } = config;
  return prompts.map((prompt) => ({
    promptIds: prompt.ids,
    numSamples: config.numGenerations,
    seed: streamSeed(seed, 'sample', prompt.index),
    maxNewTokens: config.maxCompletionLength,
    stopIds: Int32Array.from(tokenizer.eosIds),
    sampling: { temperature, topK, topP, minP, repetitionPenalty },
    policy,
  }));
}

async function toRollout(
  context: LoopContext,
  prompt: Prompt,
  sequence: GeneratedSequence,
): Promise<Rollout> {
  const { tokenizer, grader } = context;
  const { ids, logprobs, entropies, finish, sample } = sequence;
  const text = tokenizer.decode(ids, { skipSpecial: true });
  const thinking = measureThinking(ids, tokenizer, prompt.thinkOpened);
  const verdict = await grader.grade(text, prompt.problem.gold);
  const format = grader.hasFormat(text, thinking);
  const totalTokens = ids.length;
  return {
    prompt,
    sample,
    ids,
    logprobs,
    entropies,
    finish,
    text,
    totalTokens,
    verdict,
    format,
    ...thinking,
  };
}

/**
 * `numGenerations` completions of every prompt, graded; groups and samples in order. Draws depend on `seed`, the prompt's
 * index and the sample's number.
 */
export async function sampleGroups(
  context: LoopContext,
  prompts: readonly Prompt[],
  seed: number | bigint,
): Promise<SampledGroups> {
  const { config, model, signal, onDecoded } = context;
  const total = prompts.length * config.numGenerations;
  const graded: Promise<Rollout>[] = [];
  const stats = await generateFitting(model, requestsFor(context, prompts, seed), context.memory.slots(), {
    kvBytes: config.kvBytes ?? undefined,
    signal,
    onSequence: (sequence) => {
      const rollout = toRollout(context, prompts[sequence.request]!, sequence);
      // It is awaited below; until then a rejection must not count as unhandled.
      rollout.catch(() => undefined);
      graded.push(rollout);
      onDecoded?.(graded.length, total);
    },
  }).catch((error: unknown) => {
    if (errorCode(error) !== 'OUT_OF_MEMORY') throw error;
    throw memoryError(error, 'rollout', config);
  });
  const rollouts = await Promise.all(graded);
  if (rollouts.length !== total || rollouts.some((rollout) => rollout.finish === 'cancelled')) {
    throw new AcoerError('CANCELLED', 'Generation ended before every completion was sampled.');
  }
  const groups = prompts.map((prompt): Group => {
    const own = rollouts.filter((rollout) => rollout.prompt === prompt);
    return { prompt, rollouts: own.sort((a, b) => a.sample - b.sample) };
  });
  return { groups, stats };
}

/**
 * A reference that cannot be read says nothing about its completions: the group leaves the loss, the accuracy, the
 * batch's means and deviations and the rewards' states, and is counted in `accuracy/gold_unparseable`.
 */
export const isGraded = ({ rollouts }: Group) =>
  rollouts.every(({ verdict }) => verdict.status !== 'gold-unparseable');
