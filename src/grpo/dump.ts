/** The batch of a refused update, for finding out what went wrong. */
import { writeJsonAtomic } from '../run';
import type { LoopStep } from './loop';

/** Numbers that are not finite become text: JSON has none. */
const plainNumber = (value: number): number | string => (Number.isFinite(value) ? value : String(value));

const plainNumbers = (values: Float64Array | null) => values && Array.from(values, plainNumber);

export function dumpBatch(path: string, { index, update }: LoopStep): void {
  writeJsonAtomic(path, {
    step: index,
    learningRate: update.learningRate,
    loss: plainNumber(update.loss),
    gradNorm: plainNumber(update.gradNorm),
    samples: update.samples.map((sample) => ({
      promptIndex: sample.rollout.prompt.index,
      sample: sample.rollout.sample,
      promptIds: Array.from(sample.promptIds),
      completionIds: Array.from(sample.completionIds),
      reward: plainNumber(sample.reward.total),
      advantage: plainNumber(sample.advantage),
      masked: sample.masked,
      skipped: sample.skipped,
      samplerLogprobs: plainNumbers(sample.rollout.logprobs),
      trainerLogprobs: plainNumbers(update.results.get(sample)?.logprobs ?? null),
      oldLogprobs: plainNumbers(sample.oldLogprobs),
      refLogprobs: plainNumbers(sample.refLogprobs),
    })),
  });
}
