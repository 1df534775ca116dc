/** Samples a batch of groups. Each completion is graded when it ends, while the others are still decoding. */
import { isPromise, type Work } from '../base/deadline';
import { AcoerError, errorCode } from '../base/errors';
import type { Judgement } from '../judges';
import { shareOf } from '../ranks';
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
} from '../sampling';
import type { Group, Prompt, Rollout } from '../base/types';
import { abortable } from '../base/abortable';
import type { StepContext } from './context';
import { memoryError } from './memory';
import { generationError, onEveryRank } from './non-finite';
import { completionName } from './sample';
import { head } from './watch';

export interface SampledGroups {
  groups: Group[];
  /** Sampled tokens. */
  newTokens: number;
}

function samplePrompts(
  { config }: StepContext,
  prompts: readonly Prompt[],
  seed: number | bigint,
): SamplePrompt[] {
  return prompts.map(({ ids, index, thinkOpened }) => ({
    ids,
    thinkOpened,
    firstSample: 0,
    numSamples: config.numGenerations,
    seed: streamSeed(seed, 'sample', index),
    maxNewTokens: config.maxCompletionLength,
  }));
}

function sampleSettings({ config, tokenizer, signal }: StepContext): SampleSettings {
  const { temperature, topK, topP, minP, repetitionPenalty, kvBytes } = config;
  return {
    sampling: { temperature, topK, topP, minP, repetitionPenalty },
    stopIds: Int32Array.from(tokenizer.eosIds),
    kvBytes: kvBytes ?? undefined,
    signal,
  };
}

/** Judged at once, while the engine's own thread keeps decoding; a promise if the judge is a user's. */
function toRollout(
  { grade, watch }: StepContext,
  prompt: Prompt,
  { prompt: _, ...completion }: Completion,
): Work<Rollout> {
  const { text, sample, ids } = completion;
  const { problem, thinkOpened } = prompt;
  const note = () => `grading ${completionName(prompt, sample)}: ${head(text)}`;
  const judged = watch.during('grade', note, () => grade({ ...completion, thinkOpened }, problem));
  const made = (judgement: Judgement): Rollout => {
    return { ...completion, prompt, totalTokens: ids.length, ...judgement };
  };
  return isPromise(judged) ? judged.then(made) : made(judged);
}

/**
 * `numGenerations` completions of every prompt, graded; groups and samples in order. Draws depend only on
 * `seed`, the prompt's index and the sample's number.
 * @throws NonFiniteError when the model's logits are not finite
 */
export async function sampleGroups(
  context: StepContext,
  prompts: readonly Prompt[],
  seed: number | bigint,
): Promise<SampledGroups> {
  const { ranks } = context;
  const shares = await onEveryRank(ranks, 'sampling', () =>
    sampleShare(context, shareOf(ranks, prompts), seed),
  );
  return {
    groups: shares.flatMap(({ groups }) => groups),
    newTokens: shares.reduce((sum, share) => sum + share.newTokens, 0),
  };
}

/** The groups of this rank's prompts. */
async function sampleShare(
  context: StepContext,
  prompts: readonly Prompt[],
  seed: number | bigint,
): Promise<SampledGroups> {
  const { config, model, policy, sampler, tokenizer, onDecoded, watch, signal } = context;
  const total = prompts.length * config.numGenerations;
  /** Each at the place of its key, so that none can take another's reward. */
  const rollouts = prompts.map(() => new Array<Rollout | undefined>(config.numGenerations));
  let done = 0;
  const inFlight = prompts.map((prompt) =>
    Array.from({ length: config.numGenerations }, (_, sample) =>
      watch.begin(() => ({ sample: completionName(prompt, sample), problem: head(prompt.problem.question) })),
    ),
  );
  const tracker = new DecodeTracker();
  tracker.begin(prompts);
  const tell = () => onDecoded?.({ done, total, ...tracker.decoding });
  const onProgress = (progress: SampleProgress) => {
    if (!tracker.report(progress)) return;
    watch.progress();
    tell();
  };
  const asked = samplePrompts(context, prompts, seed);
  const settings = { ...sampleSettings(context), onProgress };
  await follow(sampler, policy.version, signal);
  const judging: Promise<void>[] = [];
  const onCompletion = (completion: Completion) => {
    const { prompt, sample, ids } = completion;
    tracker.ended({ prompt, sample, tokens: ids.length });
    const judged = (rollout: Rollout) => {
      rollouts[prompt]![sample] = rollout;
      done++;
      inFlight[prompt]![sample]!();
      tell();
    };
    const rollout = toRollout(context, prompts[prompt]!, completion);
    if (!isPromise(rollout)) return judged(rollout);
    const work = rollout.then(judged);
    // Awaited when all are sampled: until then a failure must not count as unhandled.
    work.catch(() => undefined);
    judging.push(work);
  };
  const nameOf = (prompt: number, sample: number) => completionName(prompts[prompt]!, sample);
  const border = { tokenizer, vocabSize: model.info.vocabSize, nameOf };
  const ended = () => rollouts.flatMap((own) => own.filter((rollout) => rollout !== undefined));
  const { newTokens } = await sampleChecked(sampler, asked, settings, border, onCompletion).catch(
    (error: unknown) => {
      if (errorCode(error) === 'OUT_OF_MEMORY') throw memoryError(error, 'rollout', config);
      const requests = asked.map((prompt) => requestOf(prompt, settings, policy));
      const sampled = ended().map((rollout) => ({ ...rollout, request: prompts.indexOf(rollout.prompt) }));
      const places = prompts.map(({ index, ids }) => ({ promptIndex: index, promptIds: ids }));
      throw generationError(error, places, requests, sampled);
    },
  );
  await abortable(Promise.all(judging), signal);
  const all = ended();
  if (all.length !== total || all.some((rollout) => rollout.finish === 'cancelled')) {
    throw new AcoerError('CANCELLED', 'Generation ended before every completion was sampled.');
  }
  const groups = prompts.map((prompt, i): Group => ({ prompt, rollouts: rollouts[i] as Rollout[] }));
  return { groups, newTokens };
}
