/** Repeats the phase of a refused step from its dump, and collects the numbers to compare. */
import type { GenerateRequest, GeneratedSequence, Model, Policy, TensorTable } from '../engine/types';
import { batchAdvantages } from '../grpo/advantages';
import type { OpenBatch } from '../grpo/sample';
import type { LoopState, ScoreContext, UpdateContext } from '../grpo/context';
import type { DumpRecord } from './dump';
import {
  endedSamples,
  firstBadAdvantage,
  generationError,
  NonFiniteError,
  type NonFinite,
} from '../grpo/non-finite';
import { withPressure } from '../grpo/same-verdict';
import type { Sample } from '../grpo/sample';
import { addLogprobs } from '../grpo/score';
import { updateOnSlice, type MicroBatch, type UpdateResult } from '../grpo/update';

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

export interface ReplayContext extends ScoreContext {
  schedule: UpdateContext['schedule'];
  loss: UpdateContext['loss'];
  model: Model;
  policy: Policy;
}

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
  return record.requests!.map(({ promptIds, numSamples, seed, maxNewTokens, stopIds, sampling }) => ({
    promptIds,
    numSamples,
    seed,
    maxNewTokens,
    stopIds,
    sampling,
    policy,
  }));
}

async function generateAgain(context: ReplayContext, refused: RefusedStep): Promise<Outcome> {
  const { model, policy, config, signal } = context;
  const prompts = refused.record.requests!;
  const requests = requestsOf(refused, policy);
  const ended: GeneratedSequence[] = [];
  const { maxSlots, kvBytes } = config;
  const found = await foundBy(async () => {
    const onSequence = (sequence: GeneratedSequence) => void ended.push(sequence);
    const options = { maxSlots: maxSlots ?? undefined, kvBytes: kvBytes ?? undefined, signal, onSequence };
    await model.generate(requests, options).catch((error: unknown) => {
      throw generationError(
        error,
        prompts.map(({ promptIndex: index, promptIds: ids }) => ({ index, ids })),
        requests,
        ended,
      );
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
