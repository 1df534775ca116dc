/** Checks a run's summary.json, which may be damaged or somebody else's, before it is shown. */
import { z } from 'zod';
import { checked, type RunDirectory } from '../run';
import type { RunSummary } from '../life/events';

const count = z.int().min(0);
/** JSON holds null for numbers that are not finite. */
const number = z.number().nullable();
const means = z.looseObject({ n: count, thinkingTokens: number, totalTokens: number });

const evaluation = z
  .looseObject({
    n: count,
    accuracy: z.number(),
    thinkingTokens: number,
    totalTokens: number,
    medianThinkingTokens: number.optional(),
    medianTotalTokens: number.optional(),
    accuracyPer1kTokens: number.optional(),
    truncated: number.optional(),
    correct: means.optional(),
    incorrect: means.optional(),
    perLevel: z.record(z.string(), z.looseObject({ n: count, accuracy: z.number() })),
    solved: z.string().optional(),
  })
  .nullable();
const evaluations = z.looseObject({ greedy: evaluation, sampled: evaluation });

const SUMMARY = z.looseObject({
  base: evaluations,
  trained: evaluations,
  run: z.looseObject({
    directory: z.string().optional(),
    reward: z.string().optional(),
    seed: z.number().optional(),
    steps: count,
    best: z.looseObject({ step: count, accuracy: z.number(), thinkingTokens: number }).nullish(),
    rollbacks: count.optional(),
  }),
});

/** The summary of a finished run. @throws BAD_INPUT naming the file and the first entry that is wrong */
export function readSummary(run: RunDirectory): RunSummary {
  const path = run.summary();
  return checked(SUMMARY, path, run.readJson(path)) as unknown as RunSummary;
}
