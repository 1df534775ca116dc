/** Repeats the phase of a refused step from its dump: for the numbers to compare, and for each completion alone. */
import type { GenerateRequest, GeneratedSequence, Policy, TensorTable } from '../engine/types';
import { batchAdvantages } from '../grpo/advantages';
import type { OpenBatch, Sample } from '../grpo/sample';
import type { LoopState, ScoreContext, UpdateContext } from '../grpo/context';
import type { DumpRecord } from './dump';
import {
  endedSamples,
  firstBadAdvantage,
  generationError,
  NonFiniteError,
  type NonFinite,
  describeNonFinite,
} from '../grpo/non-finite';
import { withPressure } from '../grpo/same-verdict';
import { addLogprobs } from '../grpo/score';
import {
  updateOnSlice,
  type MicroBatch,
  type UpdateResult,
  sliceNormalizer,
  sliceSamples,
} from '../grpo/update';
import { lossPass } from '../grpo/loss';

/** Numbers by what they are, to be compared bit for bit. */
export type Numbers = Map<string, ArrayLike<number>>;

export interface BadGradient {
  /** The first parameter whose gradient is not finite; null: all are finite, only their norm is not. */
  parameter: string | null;
  /** How many parameters have such a gradient, `of` how many. */
  parameters: number;
  of: number;
}

/** The result of repeating a phase. */
export interface Outcome {
  found: NonFinite | null;
  numbers: Numbers;
  update: UpdateResult | null;
  gradient: BadGradient | null;
}

export type ReplayContext = ScoreContext & Pick<UpdateContext, 'schedule' | 'loss'>;

/** A refused step, as dumped. */
export interface RefusedStep {
  record: DumpRecord;
  /** The loop's state before the step. */
  state: LoopState;
  batch: OpenBatch;
}

const nameOf = ({ promptIndex, sample }: Sample) => `prompt ${promptIndex} sample ${sample}`;

function sampledNumbers(samples: readonly Sample[]): Numbers {
  const numbers: Numbers = new Map();
  for (const sample of samples) {
    numbers.set(`the tokens of ${nameOf(sample)}`, sample.completionIds);
    numbers.set(`the sampler's log-probs of ${nameOf(sample)}`, sample.sampledLogprobs);
  }
  return numbers;
}

function scoredNumbers(samples: readonly Sample[]): Numbers {
  const numbers: Numbers = new Map();
  for (const sample of samples) {
    const { oldLogprobs, refLogprobs } = sample;
    if (oldLogprobs !== null) numbers.set(`the policy's log-probs of ${nameOf(sample)}`, oldLogprobs);
    if (refLogprobs !== null) numbers.set(`the base model's log-probs of ${nameOf(sample)}`, refLogprobs);
  }
  return numbers;
}

const updateNumbers = ({
  microBatches,
  gradNorm,
}: {
  microBatches: readonly Pick<MicroBatch, 'loss' | 'logprobSum'>[];
  gradNorm: number;
}): Numbers =>
  new Map([
    ...microBatches.flatMap(({ loss, logprobSum }, i): [string, number[]][] => [
      [`the loss of micro-batch ${i}`, [loss]],
      [`the sum of the log-probs of micro-batch ${i}`, [logprobSum]],
    ]),
    ["the gradient's norm", [gradNorm]],
  ]);

/** The dumped numbers, under the names that `makeAgain` uses. */
export function recordedNumbers({ record, batch }: RefusedStep): Numbers {
  const { update, found } = record;
  if (found.phase === 'generate') return sampledNumbers(batch.samples);
  if (found.phase === 'score') return scoredNumbers(batch.samples);
  if (found.phase === 'advantages') {
    return new Map([['the advantages', batch.samples.map(({ advantage }) => advantage)]]);
  }
  return updateNumbers(update!);
}

/** Repeats the refused phase. Weights and optimiser in `context` must be as they were before the step. */
export function makeAgain(context: ReplayContext, refused: RefusedStep): Promise<Outcome> {
  switch (refused.record.found.phase) {
    case 'generate':
      return generateAgain(context, refused);
    case 'advantages':
      return Promise.resolve(advantagesAgain(context, refused));
    case 'score':
      return scoreAgain(context, refused);
    case 'accumulate':
    case 'step':
      return updateAgain(context, refused);
  }
}

/** The requests of a refused generation, for `policy`. */
export function requestsOf({ record }: RefusedStep, policy: Policy): GenerateRequest[] {
  return record.requests!.map(({ promptIndex: _, ...request }) => ({ ...request, policy }));
}

async function generateAgain(context: ReplayContext, refused: RefusedStep): Promise<Outcome> {
  const { model, policy, config, signal } = context;
  const prompts = refused.record.requests!;
  const requests = requestsOf(refused, policy);
  const ended: GeneratedSequence[] = [];
  const { maxSlots, kvBytes, kvCacheDtype, numSpeculativeTokens } = config;
  const found = await foundBy(async () => {
    const onSequence = (sequence: GeneratedSequence) => void ended.push(sequence);
    const limits = { maxSlots: maxSlots ?? undefined, kvBytes: kvBytes ?? undefined };
    const options = { ...limits, kvCacheDtype, numSpeculativeTokens, signal, onSequence };
    await model.generate(requests, options).catch((error: unknown) => {
      throw generationError(error, prompts, requests, ended);
    });
  });
  return { found, numbers: sampledNumbers(endedSamples(ended, prompts)), update: null, gradient: null };
}

function advantagesAgain({ config }: ReplayContext, { record, batch }: RefusedStep): Outcome {
  const { groups: outlines, totals, perFunction, weights, pressure } = record.rewarded!;
  const groups = outlines.map((rollouts) => ({ rollouts }));
  const rewards = { rewards: totals.map((total) => ({ total, parts: {} })), perFunction, weights };
  const full = batchAdvantages(groups, rewards, config);
  const values = withPressure(groups, full, pressure);
  const samples = batch.samples.map((sample, i) => ({ ...sample, advantage: values[i]! }));
  const numbers: Numbers = new Map([['the advantages', values]]);
  return { found: firstBadAdvantage(samples), numbers, update: null, gradient: null };
}

async function scoreAgain(context: ReplayContext, { batch }: RefusedStep): Promise<Outcome> {
  const samples = batch.samples.map((sample) => ({ ...sample, oldLogprobs: null, refLogprobs: null }));
  const found = await foundBy(() => addLogprobs(context, samples));
  return { found, numbers: scoredNumbers(samples), update: null, gradient: null };
}

async function updateAgain(context: ReplayContext, refused: RefusedStep): Promise<Outcome> {
  const { policy } = context;
  const { record, batch, state } = refused;
  let gradient: BadGradient | null = null;
  const beforeStep = async () => {
    gradient = badGradient(await policy.gradients());
  };
  const updating: UpdateContext = { ...context, beforeStep };
  const update = await updateOnSlice(updating, batch, record.update!.slice, state);
  const { nonFinite: found } = update;
  return {
    found,
    numbers: updateNumbers(update),
    update,
    gradient: found?.phase === 'step' ? gradient : null,
  };
}

export function badGradient(table: TensorTable): BadGradient {
  const names = Object.keys(table);
  const bad = names.filter((name) => !table[name]!.data.every(Number.isFinite));
  return { parameter: bad[0] ?? null, parameters: bad.length, of: names.length };
}

/** What `work` found not to be finite; null if it completed. */
export async function foundBy(work: () => Promise<void>): Promise<NonFinite | null> {
  try {
    await work();
    return null;
  } catch (error) {
    if (error instanceof NonFiniteError) return error.found;
    throw error;
  }
}

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
    const prompt = refused.record.requests![i]!;
    for (let place = 0; place < request.numSamples!; place++) {
      const sample = request.firstSample! + place;
      const one = { ...request, numSamples: 1, firstSample: sample };
      const found = await foundBy(async () => {
        await model.generate([one], { signal, collect: false }).catch((error: unknown) => {
          throw generationError(error, [prompt], [one], []);
        });
      });
      if (found === null) continue;
      const token = found.token === null ? '' : ` at completion token ${found.token}`;
      offenders.push({
        promptIndex: prompt.promptIndex,
        sample,
        what: `${found.what} are not finite${token}`,
      });
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
