/** Log-probs and entropies of samples, without gradients, in passes that fit into memory. */
import type { Policy, TokenValues } from '../engine/types';
import { apart, packSequences, runsByTokens, splitPerToken } from '../base/packing';
import { updatesPerBatch } from '../base/batches';
import type { ScoreContext } from './context';
import { dealtByTokens } from '../base/dealing';
import { checkTokens, onEveryRank } from './non-finite';
import { sampleName, type Sample } from './sample';

/**
 * @param policy null: the base model
 * @param take gets the values of each pass, one per completion token of `members`
 */
export async function scoreSamples(
  { config, model, signal, watch, memory }: Omit<ScoreContext, 'reference'>,
  samples: readonly Sample[],
  policy: Policy | null,
  take: (members: readonly Sample[], values: TokenValues) => void,
): Promise<void> {
  const options = { policy, temperature: config.temperature, ...(signal && { signal }) };
  await memory.inBins('scoring', apart(samples), async (members) => {
    const scored = watch.begin(() => ({ microBatch: members.map(sampleName) }));
    try {
      take(members, await model.score(packSequences(members), options));
    } finally {
      scored();
    }
  });
}

/** Adds the old log-probs if the policy changes while the batch is used, and the reference's for the KL term. */
export async function addLogprobs(context: ScoreContext, samples: readonly Sample[]): Promise<void> {
  const { config, policy, reference, ranks } = context;
  const used = samples.filter((sample) => !sample.skipped);
  const shares = dealtByTokens(ranks.size, runsByTokens(used)).map((runs) => runs.flat());
  const [own, all] = [shares[ranks.rank]!, shares.flat()];
  const scoreAll = (whose: string, field: 'oldLogprobs' | 'refLogprobs', of: Policy | null) =>
    scoreSamples(context, own, of, (members, { logprobs }) => {
      splitPerToken(logprobs, members).forEach((part, i) => (members[i]![field] = part));
      checkTokens('score', `${whose} log-prob`, members, logprobs, samples);
    });
  // With the log-probs of the training pass, dropout would be part of the correction's ratio.
  const corrected = config.importanceSamplingCorrection !== null && config.loraDropout > 0;
  const scored = await onEveryRank(ranks, 'scoring', async () => {
    if (updatesPerBatch(config) > 1 || corrected) await scoreAll("the policy's", 'oldLogprobs', policy);
    const whose = reference === null ? "the base model's" : "the starting adapter's";
    if (config.beta !== 0) await scoreAll(whose, 'refLogprobs', reference);
    return own.map(({ oldLogprobs, refLogprobs }) => ({ oldLogprobs, refLogprobs }));
  });
  scored.flat().forEach((values, i) => Object.assign(all[i]!, values));
}
