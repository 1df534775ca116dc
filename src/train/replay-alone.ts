/** Finds the completions of a refused step that are not finite on their own. */
import type { Sample } from '../grpo/sample';
import { addLogprobs } from '../grpo/score';
import { foundBy, badGradient, requestsOf, type RefusedStep, type ReplayContext } from './replay-phases';
import { lossPass } from '../grpo/loss';
import { describeNonFinite, firstBadAdvantage, generationError } from '../grpo/non-finite';
import { sliceNormalizer, sliceSamples } from '../grpo/update';

export interface Offender {
  promptIndex: number;
  sample: number;
  /** What is not finite, e.g. "the log-prob is not finite at completion token 3". */
  what: string;
}

/** Repeats the refused phase for one completion at a time. */
export async function offendersOf(context: ReplayContext, refused: RefusedStep): Promise<Offender[]> {
  switch (refused.record.found.phase) {
    case 'generate':
      return generatedAlone(context, refused);
    case 'advantages':
      return eachAlone(refused.batch.samples, async (sample) => {
        const found = firstBadAdvantage([sample]);
        return found && describeNonFinite(found);
      });
    case 'score':
      return eachAlone(refused.batch.samples, async (sample) => {
        const found = await foundBy(() =>
          addLogprobs(context, [{ ...sample, oldLogprobs: null, refLogprobs: null }]),
        );
        return found && describeNonFinite(found);
      });
    case 'accumulate':
    case 'step':
      return trainedAlone(context, refused);
  }
}

async function eachAlone(
  samples: readonly Sample[],
  badness: (sample: Sample) => Promise<string | null>,
): Promise<Offender[]> {
  const offenders: Offender[] = [];
  for (const sample of samples) {
    const what = await badness(sample);
    const { promptIndex, sample: number } = sample;
    if (what !== null) offenders.push({ promptIndex, sample: number, what });
  }
  return offenders;
}

async function generatedAlone(context: ReplayContext, refused: RefusedStep): Promise<Offender[]> {
  const { model, policy, signal } = context;
  const offenders: Offender[] = [];
  for (const [i, request] of requestsOf(refused, policy).entries()) {
    const { promptIndex } = refused.record.requests![i]!;
    for (let sample = 0; sample < request.numSamples!; sample++) {
      const one = { ...request, numSamples: 1, firstSample: sample };
      const found = await foundBy(async () => {
        await model.generate([one], { signal, collect: false }).catch((error: unknown) => {
          throw generationError(error, [{ index: promptIndex, ids: request.promptIds }], [one], []);
        });
      });
      if (found === null) continue;
      const token = found.token === null ? '' : ` at completion token ${found.token}`;
      offenders.push({ promptIndex, sample, what: `${found.what} are not finite${token}` });
    }
  }
  return offenders;
}

function trainedAlone(context: ReplayContext, { record, batch }: RefusedStep): Promise<Offender[]> {
  const { config, policy } = context;
  const { slice, microBatches } = record.update!;
  const samples = sliceSamples(config, batch, slice);
  const normalizer = sliceNormalizer(context, batch, samples);
  const seedOf = (sample: Sample) =>
    microBatches.find((one) => one.samples.includes(batch.samples.indexOf(sample)))?.dropoutSeed ?? null;
  const live = samples.filter((sample) => !sample.skipped);
  return eachAlone(live, async (sample) => {
    try {
      const options = { normalizer, dropoutSeed: seedOf(sample), kept: null };
      const found = await foundBy(async () => void (await lossPass(context, [sample], options)));
      if (found !== null) return describeNonFinite(found);
      const { parameter } = badGradient(await policy.gradients());
      return parameter === null ? null : `the gradient of ${parameter} is not finite`;
    } finally {
      await policy.zeroGradients();
    }
  });
}
