/** One line of metrics.jsonl: TRL's metrics by TRL's names, ours under acoer/, accuracy/, thinking/, ... */
import type { MemoryReport } from '../engine/types';
import { importanceWeights, isOutside, type ImportanceCorrection, type SequenceMeasures } from '../losses';
import { AcoerError, errorMessage } from '../base/errors';
import { isReservedMetric, type KnownMetrics, type MetricWriter } from '../base/metric-names';
import type { Group, Rollout, StepMetrics } from '../base/types';
import type { GenerationBatch } from './batch';
import { isRecord, shownJson } from '../base/json';
import { shownValue } from '../base/border';
import type { LoopContext } from './context';
import type { SampledShare } from './rollouts';
import { brevityShare, sameVerdictShare } from './same-verdict';
import { isGraded, isTruncated, type Sample } from './sample';
import { maximum, mean, minimum, sampleStd, sum } from '../base/statistics';
import { trainerLogprobs, type UpdateResult } from './update';

const share = (rollouts: readonly Rollout[], holds: (rollout: Rollout) => boolean) =>
  rollouts.filter(holds).length / Math.max(1, rollouts.length);

const isCorrect = (rollout: Rollout) => rollout.verdict.correct;
const isWrong = (rollout: Rollout) => !rollout.verdict.correct;
const thinkingLength = (rollout: Rollout) => rollout.thinkingTokens;

function completionMetrics(rollouts: readonly Rollout[]): KnownMetrics {
  const lengths = rollouts.map((rollout) => rollout.totalTokens);
  const terminated = rollouts.filter((one) => !isTruncated(one)).map(({ totalTokens }) => totalTokens);
  // TRL reports 0 when nothing terminated.
  const ended = terminated.length > 0 ? terminated : [0];
  return {
    'completions/mean_length': mean(lengths),
    'completions/min_length': minimum(lengths),
    'completions/max_length': maximum(lengths),
    'completions/clipped_ratio': share(rollouts, isTruncated),
    'completions/mean_terminated_length': mean(ended),
    'completions/min_terminated_length': minimum(ended),
    'completions/max_terminated_length': maximum(ended),
    'completions/answer_length': mean(rollouts.map((rollout) => rollout.answerTokens ?? NaN)),
  };
}

/** Accuracy is over the groups whose reference could be read; everything else over all completions. */
function accuracyMetrics(batch: GenerationBatch, rollouts: readonly Rollout[]): KnownMetrics {
  const groups = batch.groups.filter(isGraded).map((group) => group.rollouts);
  const groupShare = (holds: (group: readonly Rollout[]) => boolean) =>
    groups.filter(holds).length / Math.max(1, groups.length);
  return {
    'accuracy/mean': share(groups.flat(), isCorrect),
    'accuracy/groups_all_correct': groupShare((group) => group.every(isCorrect)),
    'accuracy/groups_all_wrong': groupShare((group) => !group.some(isCorrect)),
    'accuracy/format': share(rollouts, (rollout) => rollout.format),
    'accuracy/unparseable': share(rollouts, (rollout) => rollout.verdict.status === 'unparseable'),
    'accuracy/timeout': share(rollouts, (rollout) => rollout.verdict.status === 'timeout'),
    'accuracy/gold_unparseable': 1 - groups.length / batch.groups.length,
    'thinking/mean': mean(rollouts.map(thinkingLength)),
    'thinking/later_blocks_mean': mean(rollouts.map((rollout) => rollout.laterThinkingTokens ?? NaN)),
    'thinking/max': maximum(rollouts.map(thinkingLength)),
    'thinking/closed_ratio': share(rollouts, (rollout) => rollout.thinkingClosed),
    'thinking/correct_mean': mean(rollouts.filter(isCorrect).map(thinkingLength)),
    'thinking/wrong_mean': mean(rollouts.filter(isWrong).map(thinkingLength)),
  };
}

/** The mean std of `value` within groups, over the completions for which `holds`; NaN without a group of two. */
function spread(
  groups: readonly Group[],
  holds: (rollout: Rollout) => boolean,
  value: (rollout: Rollout) => number,
): number {
  const kept = groups.map(({ rollouts }) => rollouts.filter(holds)).filter((rollouts) => rollouts.length > 1);
  return mean(kept.map((rollouts) => sampleStd(rollouts.map(value))));
}

/**
 * For the collapse monitor: how far the completions of a group differ, and how large advantages get. Over the groups
 * whose reference could be read; lengths in thinking tokens.
 */
export function groupMetrics({
  groups,
  advantages,
  state,
}: Pick<GenerationBatch, 'groups' | 'advantages' | 'state'>): KnownMetrics {
  const graded = groups.filter(isGraded);
  return {
    'advantages/min': minimum(advantages.values),
    'advantages/max': maximum(advantages.values),
    'advantages/same_verdict_share': sameVerdictShare(groups, advantages),
    'accuracy/group_std': spread(
      graded,
      () => true,
      (rollout) => Number(isCorrect(rollout)),
    ),
    'thinking/group_std': spread(graded, () => true, thinkingLength),
    'thinking/correct_group_std': spread(graded, isCorrect, thinkingLength),
    'thinking/wrong_group_std': spread(graded, isWrong, thinkingLength),
    // A rollback lowers the pressure, and with it how much brevity pays.
    'advantages/brevity': (brevityShare(groups, advantages) ?? NaN) * state.eased.pressure,
  };
}

function rewardMetrics(batch: GenerationBatch): KnownMetrics {
  const totals = batch.rewards.rewards.map((reward) => reward.total);
  const metrics: KnownMetrics = {
    reward: mean(totals),
    reward_std: sampleStd(totals),
    frac_reward_zero_std: batch.advantages.fracZeroStd,
  };
  for (const [name, values] of Object.entries(batch.rewards.perFunction)) {
    metrics[`rewards/${name}/mean`] = mean(values);
    metrics[`rewards/${name}/std`] = sampleStd(values);
  }
  return metrics;
}

/**
 * Adds the numbers of a reward or loss, which may be the user's, to the line so far.
 * @throws `code` for a name that the run or another reward writes
 */
function addOwn(
  line: StepMetrics,
  own: () => Readonly<Record<string, number | undefined>>,
  [writer, name]: readonly [MetricWriter, string],
  code: 'REWARD_FAILED' | 'BAD_CONFIG',
): void {
  const fault = (why: string, cause?: unknown) =>
    new AcoerError(code, `The metrics of ${writer} "${name}" ${why}`, { cause });
  let given: Readonly<Record<string, number | undefined>>;
  try {
    given = own();
  } catch (cause) {
    throw fault(`could not be made: ${errorMessage(cause)}`, cause);
  }
  if (!isRecord(given)) throw fault(`must be an object of numbers, not ${shownValue(given)}`);
  const taken = Object.keys(given).find((key) => isReservedMetric(key, writer) || Object.hasOwn(line, key));
  if (taken === undefined) {
    Object.assign(line, given);
    return;
  }
  const owner = isReservedMetric(taken, writer)
    ? 'which the run writes itself'
    : 'which the line already has';
  throw fault(
    `name ${shownJson(taken)}, ${owner}; choose another name, such as ${shownJson(`${name}/${taken}`)}.`,
  );
}

/** Nothing without groups in flight. */
const stalenessMetrics = ({ staleness }: GenerationBatch): KnownMetrics =>
  staleness === null
    ? {}
    : { 'sampling/staleness/mean': staleness.mean, 'sampling/staleness/max': staleness.max };

/** Summed over the ranks; nothing without speculation, or if no sampler counts it. */
export function speculationMetrics(
  { config }: LoopContext,
  { shares }: Pick<GenerationBatch, 'shares'>,
): KnownMetrics {
  const counting = shares.filter(({ proposedTokens }) => proposedTokens !== undefined);
  if (config.numSpeculativeTokens === 0 || counting.length === 0) return {};
  return {
    'sampling/speculation/proposed': sum(counting.map(({ proposedTokens = 0 }) => proposedTokens)),
    'sampling/speculation/accepted': sum(counting.map(({ acceptedTokens = 0 }) => acceptedTokens)),
  };
}

/** Metrics of the generated batch, NaN where there was nothing to measure; every update made from it repeats them. */
export function generationMetrics(context: LoopContext, batch: GenerationBatch): StepMetrics {
  const rollouts = batch.groups.flatMap((group) => group.rollouts);
  const known: KnownMetrics = {
    epoch: batch.state.cursor / context.order.size,
    num_tokens: batch.state.numTokens,
    ...completionMetrics(rollouts),
    ...rewardMetrics(batch),
    ...accuracyMetrics(batch, rollouts),
    ...groupMetrics(batch),
    ...stalenessMetrics(batch),
    ...speculationMetrics(context, batch),
  };
  // A user's reward chooses its own names.
  const metrics: StepMetrics = known;
  for (const { reward } of context.rewards) {
    const own = () => reward.metrics(batch.state.rewardStates[reward.name]);
    addOwn(metrics, own, ['reward', reward.name], 'REWARD_FAILED');
    const noted = () => batch.rewards.metrics?.[reward.name] ?? {};
    addOwn(metrics, noted, ['reward', reward.name], 'REWARD_FAILED');
  }
  return metrics;
}

/** The loss's metrics of the whole update. */
function lossMetrics({ config, loss }: LoopContext, { samples, results }: UpdateResult): KnownMetrics {
  const sequences = samples.map((sample): SequenceMeasures => ({
    tokens: sample.completionIds.length,
    masked: sample.masked,
    onPolicy: sample.oldLogprobs === null,
    measures: results.get(sample)?.measures ?? null,
  }));
  const metrics: KnownMetrics = {};
  const own = () => loss.metrics(sequences, config.importanceSamplingLevel);
  addOwn(metrics, own, ['loss', loss.name], 'BAD_CONFIG');
  return metrics;
}

/** Metrics of the weights of `importanceSamplingCorrection`, over the trained tokens or completions. */
function importanceMetrics({ config }: LoopContext, { samples, results }: UpdateResult): KnownMetrics {
  const mode = config.importanceSamplingCorrection;
  if (mode === null) return {};
  const ofSequence = mode.startsWith('sequence');
  const weights = samples.flatMap((sample) => {
    const own = sample.masked ? null : (results.get(sample)?.importanceWeights ?? null);
    return own === null ? [] : ofSequence ? [own[0]!] : [...own];
  });
  if (weights.length === 0) return {};
  return {
    'sampling/importance_sampling_ratio/min': minimum(weights),
    'sampling/importance_sampling_ratio/mean': mean(weights),
    'sampling/importance_sampling_ratio/max': maximum(weights),
  };
}

/** Ratios of trainer to sampler before the bounds: one per token, or the whole completion's. */
function rawRatios(
  mode: ImportanceCorrection['mode'],
  trainer: Float64Array,
  { sampledLogprobs }: Sample,
): Float64Array {
  const tokens = trainer.length;
  const whole = { offsets: Int32Array.of(0, tokens), mask: new Uint8Array(tokens).fill(1) };
  const ratios = importanceWeights(whole, trainer, sampledLogprobs, { mode, min: null, max: null });
  return mode.startsWith('sequence') ? ratios.slice(0, 1) : ratios;
}

/** The share of the ratios, per trained token or completion, that the bounds of the correction changed. */
function ratiosOutside({ config }: LoopContext, { samples, results }: UpdateResult): KnownMetrics {
  const {
    importanceSamplingCorrection: mode,
    importanceSamplingClipMin: min,
    importanceSamplingClipMax: max,
  } = config;
  if (mode === null) return {};
  const ratios = samples.flatMap((sample) => {
    const result = sample.masked ? undefined : results.get(sample);
    if (result === undefined || result.logprobs.length === 0) return [];
    return [...rawRatios(mode, sample.oldLogprobs ?? result.logprobs, sample)];
  });
  if (ratios.length === 0) return {};
  const outside = ratios.filter((ratio) => isOutside(ratio, { min, max }));
  return { 'sampling/ratio_outside': outside.length / ratios.length };
}

/**
 * How far the sampler's log-probs are from the trainer's, over the trained tokens: the absolute difference, and k3,
 * an estimate of KL(sampler || trainer). `trainer` gives the log-probs made with the weights that sampled, or null for a
 * sample that was not measured.
 */
function samplingGap(
  samples: readonly Sample[],
  trainer: (sample: Sample) => Float64Array | null,
): KnownMetrics {
  let [total, largest, divergence, tokens] = [0, 0, 0, 0];
  for (const sample of samples) {
    const logprobs = trainer(sample);
    if (logprobs === null) continue;
    for (let t = 0; t < logprobs.length; t++) {
      const difference = logprobs[t]! - sample.sampledLogprobs[t]!;
      const gap = Math.abs(difference);
      total += gap;
      if (gap > largest) largest = gap;
      // exp(d) - d - 1, exact for the small differences of rounding.
      divergence += Math.expm1(difference) - difference;
    }
    tokens += logprobs.length;
  }
  if (tokens === 0) return {};
  return {
    'sampling/sampling_logp_difference/mean': total / tokens,
    'sampling/sampling_logp_difference/max': largest,
    'sampling/mismatch_kl': divergence / tokens,
  };
}

/** Metrics of one update. What could not be computed (a refused update's norm) is left out. */
export function updateMetrics(context: LoopContext, update: UpdateResult): KnownMetrics {
  const metrics: KnownMetrics = {
    learning_rate: update.learningRate,
    update_applied: update.applied ? 1 : 0,
    micro_batches: update.microBatches.length,
    skipped_sequences: update.samples.filter((sample) => sample.skipped).length,
  };
  const complete = update.samples.every((sample) => sample.skipped || update.results.has(sample));
  if (!complete) return metrics;
  metrics.loss = update.loss;
  if (Number.isFinite(update.gradNorm)) metrics.grad_norm = update.gradNorm;
  const tokens = Math.max(1, update.tokens);
  if (update.entropyTokens > 0) metrics.entropy = update.entropySum / update.entropyTokens;
  if (context.config.beta !== 0) metrics.kl = update.klSum / tokens;
  Object.assign(metrics, lossMetrics(context, update));
  Object.assign(metrics, importanceMetrics(context, update), ratiosOutside(context, update));
  return { ...metrics, ...samplingGap(update.samples, trainerLogprobs(context, update)) };
}

/** Requests that the samplers of all ranks had to make again; nothing if none counts them. */
function retryMetrics(shares: readonly SampledShare[]): KnownMetrics {
  const counted = shares.flatMap(({ retries }) => retries ?? []);
  return counted.length === 0 ? {} : { 'sampling/retries': counted.reduce((sum, count) => sum + count, 0) };
}

/**
 * Wall time in seconds under time/, and memory in bytes under memory/.
 * @param generated the batch, if this step made it
 */
export function costMetrics(
  context: LoopContext,
  generated: GenerationBatch | null,
  update: UpdateResult,
  memory: MemoryReport,
): KnownMetrics {
  const seconds = (ms: number) => ms / 1000;
  const { generate, reward, score } = generated?.timesMs ?? { generate: 0, reward: 0, score: 0 };
  const { train, optimizer } = update.timesMs;
  const metrics: KnownMetrics = {
    step_time: seconds(generate + reward + score + train + optimizer),
    'time/generate': seconds(generate),
    'time/reward': seconds(reward),
    'time/score': seconds(score),
    'time/train': seconds(train),
    'time/optimizer': seconds(optimizer),
    ...retryMetrics(generated?.shares ?? []),
    ...memoryMetrics(memory),
    'memory/micro_batch_tokens': context.memory.microBatchTokens,
    'memory/max_slots': context.memory.maxSlots,
  };
  if (generated !== null && generate > 0) {
    const newTokens = generated.shares.reduce((sum, share) => sum + share.newTokens, 0);
    metrics['time/generated_tokens_per_second'] = newTokens / seconds(generate);
  }
  return metrics;
}

/**
 * What the step cost each rank; nothing for a run of one process.
 * @param shares what each has sampled; none if the step sampled nothing
 */
export function rankMetrics(shares: readonly SampledShare[], waitedMs: readonly number[]): KnownMetrics {
  if (waitedMs.length === 1) return {};
  const waits = waitedMs.map((ms) => ms / 1000);
  const metrics: KnownMetrics = {
    'ranks/size': waits.length,
    'ranks/wait_seconds/mean': mean(waits),
    'ranks/wait_seconds/max': maximum(waits),
  };
  waits.forEach((wait, rank) => (metrics[`ranks/wait_seconds/${rank}`] = wait));
  if (shares.length === 0) return metrics;
  const rates = shares.map(({ newTokens, elapsedMs }) => (1000 * newTokens) / Math.max(1, elapsedMs));
  metrics['ranks/tokens_per_second/min'] = minimum(rates);
  metrics['ranks/tokens_per_second/max'] = maximum(rates);
  rates.forEach((rate, rank) => (metrics[`ranks/tokens_per_second/${rank}`] = rate));
  return metrics;
}

export function memoryMetrics(memory: MemoryReport): KnownMetrics {
  const metrics: KnownMetrics = {
    'memory/engine_bytes': memory.engineBytes,
    'memory/resident_bytes': memory.residentBytes,
    'memory/peak_resident_bytes': memory.peakResidentBytes,
  };
  if (memory.peakTensorBytes !== null) metrics['memory/peak_tensor_bytes'] = memory.peakTensorBytes;
  if (memory.deviceTotalBytes > 0) {
    metrics['memory/device_used_bytes'] = memory.deviceTotalBytes - memory.deviceFreeBytes;
  }
  return metrics;
}
