/** step.json of a dump: what was not finite in a refused step, and the phase's inputs besides the tensors. */
import { z } from 'zod';
import { badInput } from '../base/errors';
import { VERDICT_STATUSES } from '../base/types';
import type { Sample } from '../grpo/sample';
import { type LoopState, samplingSeed } from '../grpo/context';
import type { Config } from '../config';
import { STEP_PHASES, type Evidence } from '../grpo/non-finite';
import type { Refusal } from '../grpo/step';

/** Non-finite numbers are stored as text, because JSON has none. */
const numberSchema = z.union([z.number(), z.literal(['NaN', 'Infinity', '-Infinity']).transform(Number)]);
const plainNumber = (value: number): number | string => (Number.isFinite(value) ? value : String(value));
const plainNumbers = (values: ArrayLike<number>) => Array.from(values, plainNumber);

const seedSchema = z
  .string()
  .regex(/^\d{1,20}$/)
  .transform(BigInt);
const ids = z.array(z.int()).transform((values) => Int32Array.from(values));

const requestSchema = z.object({
  promptIndex: z.int(),
  promptIds: ids,
  numSamples: z.int(),
  /** Missing in dumps of versions that had no groups in flight. */
  firstSample: z.int().default(0),
  firstToken: z.int().default(0),
  seed: seedSchema,
  maxNewTokens: z.int(),
  stopIds: ids,
  sampling: z.object({
    temperature: z.number(),
    topK: z.number(),
    topP: z.number(),
    minP: z.number(),
    repetitionPenalty: z.number(),
  }),
});

const rewardedSchema = z.object({
  pressure: z.number(),
  weights: z.record(z.string(), z.number()),
  perFunction: z.record(
    z.string(),
    z.array(numberSchema).transform((values) => Float64Array.from(values)),
  ),
  totals: z.array(numberSchema),
  groups: z.array(
    z.array(
      z.object({
        totalTokens: z.int(),
        format: z.boolean(),
        verdict: z.object({
          correct: z.boolean(),
          status: z.enum(VERDICT_STATUSES),
          extracted: z.string().nullable(),
        }),
      }),
    ),
  ),
});

const updateSchema = z.object({
  slice: z.int().min(0),
  loss: numberSchema,
  gradNorm: numberSchema,
  /** In the order they ran. `samples` are indices into the batch; the numbers of a refused pass are NaN. */
  microBatches: z.array(
    z.object({
      samples: z.array(z.int().min(0)),
      dropoutSeed: seedSchema.nullable(),
      loss: numberSchema,
      logprobSum: numberSchema,
    }),
  ),
});

const dumpSchema = z.object({
  step: z.int().min(1),
  found: z.object({
    phase: z.enum(STEP_PHASES),
    what: z.string(),
    promptIndex: z.int().nullable(),
    sample: z.int().nullable(),
    token: z.int().nullable(),
  }),
  learningRate: z.number(),
  samplingSeed: z.string(),
  requests: z.array(requestSchema).nullable(),
  rewarded: rewardedSchema.nullable(),
  update: updateSchema.nullable(),
});

export type DumpRecord = z.output<typeof dumpSchema>;

/** @throws BAD_INPUT naming what is wrong in the step.json of `path` */
export function parseDump(path: string, record: unknown): DumpRecord {
  const parsed = dumpSchema.safeParse(record);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined ? '' : ` at ${issue.path.join('.')}: ${issue.message}`;
  throw badInput(`${path}/step.json is not a valid dump record${where}.`);
}

type DumpedRequest = NonNullable<Evidence['requests']>[number];

const requestRecord = ({ promptIndex, request }: DumpedRequest) => ({
  promptIndex,
  promptIds: Array.from(request.promptIds),
  numSamples: request.numSamples,
  firstSample: request.firstSample ?? 0,
  firstToken: request.firstToken ?? 0,
  seed: String(request.seed),
  maxNewTokens: request.maxNewTokens,
  stopIds: Array.from(request.stopIds),
  sampling: request.sampling,
});

function rewardedRecord({ groups, rewards, pressure }: NonNullable<Evidence['rewarded']>) {
  const perFunction = Object.entries(rewards.perFunction).map(([name, values]) => [
    name,
    plainNumbers(values),
  ]);
  return {
    pressure,
    weights: rewards.weights,
    perFunction: Object.fromEntries(perFunction) as Record<string, unknown>,
    totals: rewards.rewards.map(({ total }) => plainNumber(total)),
    groups: groups.map(({ rollouts }) =>
      rollouts.map(({ totalTokens, format, verdict }) => ({ totalTokens, format, verdict })),
    ),
  };
}

function updateRecord({ slice, result }: NonNullable<Refusal['update']>, batch: readonly Sample[]) {
  const places = new Map(batch.map((sample, i) => [sample, i]));
  return {
    slice,
    loss: plainNumber(result.loss),
    gradNorm: plainNumber(result.gradNorm),
    microBatches: result.microBatches.map(({ samples, dropoutSeed, loss, logprobSum }) => ({
      samples: samples.map((sample) => places.get(sample)!),
      dropoutSeed: dropoutSeed === null ? null : String(dropoutSeed),
      loss: plainNumber(loss),
      logprobSum: plainNumber(logprobSum),
    })),
  };
}

/** For human readers; the exact numbers are in rollouts.safetensors. */
const sampleRecord = (sample: Sample) => ({
  promptIndex: sample.promptIndex,
  sample: sample.sample,
  promptTokens: sample.promptIds.length,
  completionTokens: sample.completionIds.length,
  reward: plainNumber(sample.reward),
  advantage: plainNumber(sample.advantage),
  masked: sample.masked,
  skipped: sample.skipped,
});

/** The plain JSON that `parseDump` reads back. @param before the loop's state before the step */
export function dumpRecord(
  { found, batch, evidence, update }: Refusal,
  learningRate: number,
  config: Config,
  before: LoopState,
): object {
  return {
    found,
    learningRate,
    samplingSeed: String(samplingSeed(config, before.eased)),
    requests: evidence.requests?.map(requestRecord) ?? null,
    rewarded: evidence.rewarded === undefined ? null : rewardedRecord(evidence.rewarded),
    update: update && updateRecord(update, batch.samples),
    samples: batch.samples.map(sampleRecord),
  };
}
