/** Sampling a batch of groups; each completion is graded when it ends, while the others still decode. */
import { generateFitting } from '../fitting';
import type { GenerateRequest, GenerateStats, GeneratedSequence } from '../engine/types';
import { AcoerError, errorCode } from '../errors';
import { streamSeed } from '../rng';
import { measureCompletion } from '../tokenizer';
import type { Group, Prompt, Rollout } from '../types';
import type { LoopContext } from './context';
import { memoryError } from './memory';
import { generationError } from './non-finite';
import { head } from './watch';

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

function toRollout(context: LoopContext, prompt: Prompt, sequence: GeneratedSequence): Rollout {
  const { tokenizer, judge, watch } = context;
  const { ids, logprobs, entropies, finish, sample } = sequence;
  const text = tokenizer.decode(ids, { skipSpecial: true });
  const thinking = measureCompletion(ids, tokenizer, prompt.thinkOpened);
  const note = () => `grading ${completionName(prompt, sample)}: ${head(text)}`;
  const { verdict, format } = watch.during('grade', note, () => judge(text, prompt.problem.gold, thinking));
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

/** Names a completion with its problem. */
export const completionName = ({ index, problem }: Prompt, sample: number) =>
  `sample ${sample} of prompt ${index} (problem ${problem.id})`;

/**
 * `numGenerations` completions of every prompt, graded; groups and samples in order. Draws depend on `seed`, the prompt's
 * index and the sample's number.
 * @throws NonFiniteError when the model's logits are not finite
 */
export async function sampleGroups(
  context: LoopContext,
  prompts: readonly Prompt[],
  seed: number | bigint,
): Promise<SampledGroups> {
  const { config, model, signal, onDecoded, watch, memory } = context;
  const total = prompts.length * config.numGenerations;
  const rollouts: Rollout[] = [];
  const ended: GeneratedSequence[] = [];
  const requests = requestsFor(context, prompts, seed);
  const inFlight = prompts.map((prompt) =>
    Array.from({ length: config.numGenerations }, (_, sample) =>
      watch.begin(() => ({ sample: completionName(prompt, sample), problem: head(prompt.problem.question) })),
    ),
  );
  const options = {
    kvBytes: config.kvBytes ?? undefined,
    signal,
    onSequence: (sequence: GeneratedSequence) => {
      ended.push(sequence);
      rollouts.push(toRollout(context, prompts[sequence.request]!, sequence));
      inFlight[sequence.request]![sequence.sample]!();
      onDecoded?.(rollouts.length, total);
    },
  };
  const stats = await generateFitting(model, requests, memory.slots(), options).catch((error: unknown) => {
    if (errorCode(error) === 'OUT_OF_MEMORY') throw memoryError(error, 'rollout', config);
    throw generationError(error, prompts, requests, ended);
  });
  if (rollouts.length !== total || rollouts.some((rollout) => rollout.finish === 'cancelled')) {
    throw new AcoerError('CANCELLED', 'Generation ended before every completion was sampled.');
  }
  const groups = prompts.map((prompt): Group => {
    const own = rollouts.filter((rollout) => rollout.prompt === prompt);
    return { prompt, rollouts: own.sort((a, b) => a.sample - b.sample) };
  });
  return { groups, stats };
}
