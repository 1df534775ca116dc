import type { MetricName } from '../../src/base/metric-names';
import { resolveConfig } from '../../src/config';
import type { Sample } from '../../src/grpo/sample';
import type { MemoryReport } from '../../src/engine/types';
import type { GenerationBatch } from '../../src/grpo/batch';
import type { LoopContext } from '../../src/grpo/context';
import { costMetrics, speculationMetrics, updateMetrics } from '../../src/grpo/metrics';
import type { SampleResult } from '../../src/grpo/loss';
import type { UpdateResult } from '../../src/grpo/update';
import { resolveLoss } from '../../src/losses';
import { loopCases } from '../helpers/loop-fixture';

interface ClipCase {
  level: 'token' | 'sequence';
  lengths: number[];
  masked: number;
  advantages: number[];
  low: number[];
  high: number[];
  metrics: { [Name in MetricName]: number };
}

function sampleOf(length: number, masked: boolean, skipped: boolean): Sample {
  const logprobs = new Float64Array(length).fill(-1);
  return {
    completionIds: new Int32Array(length),
    masked,
    skipped,
    sampledLogprobs: logprobs,
    oldLogprobs: null,
  } as unknown as Sample;
}

function updateOf(samples: Sample[], result: (i: number) => Partial<SampleResult>): UpdateResult {
  const results = new Map<Sample, SampleResult>();
  samples.forEach((sample, i) => {
    if (sample.skipped) return;
    const logprobs = new Float64Array(sample.completionIds.length).fill(-1.25);
    results.set(sample, { logprobs, measures: {}, importanceWeights: null, ...result(i) });
  });
  const tokens = samples.reduce((sum, s) => sum + (s.masked ? 0 : s.completionIds.length), 0);
  return {
    loss: 0.5,
    gradNorm: 2,
    applied: true,
    nonFinite: null,
    learningRate: 1e-3,
    klSum: 0,
    entropySum: 12,
    entropyTokens: tokens,
    tokens,
    samples,
    results,
    microBatches: [{ samples, dropoutSeed: null, loss: 0.5, logprobSum: -10 }],
    timesMs: { train: 0, optimizer: 0 },
  };
}

function contextOf(values: object): LoopContext {
  const config = resolveConfig([{ model: 'tiny', ...values }]);
  return { config, loss: resolveLoss(config.lossType) } as LoopContext;
}

test.each(loopCases<ClipCase>('clip-ratios'))('clip ratios at $level level equal TRL', (c) => {
  // The masked completion and the one with advantage 0 never reach the engine.
  const samples = c.lengths.map((length, i) =>
    sampleOf(length, i === c.masked, i === c.masked || c.advantages[i] === 0),
  );
  const update = updateOf(samples, (i) => ({ measures: { clippedLow: c.low[i]!, clippedHigh: c.high[i]! } }));
  const metrics = updateMetrics(contextOf({ importanceSamplingLevel: c.level }), update);
  // TRL sums the counts in float32.
  for (const [name, value] of Object.entries(c.metrics))
    expect(metrics[name as MetricName]).toBeCloseTo(value, 6);
});

test('the sampling gap is over trained tokens, entropy over all unmasked ones', () => {
  const samples = [sampleOf(3, false, false), sampleOf(5, false, true), sampleOf(4, true, true)];
  const metrics = updateMetrics(
    contextOf({}),
    updateOf(samples, () => ({})),
  );
  expect(metrics['sampling/sampling_logp_difference/mean']).toBeCloseTo(0.25, 12);
  expect(metrics['sampling/sampling_logp_difference/max']).toBeCloseTo(0.25, 12);
  expect(metrics.entropy).toBeCloseTo(12 / 8, 12);
  expect(metrics.skipped_sequences).toBe(2);
});

test('mismatch_kl is the mean of ratio - 1 - log(ratio) over trained tokens', () => {
  const ratios = [1, 0.5, 3];
  const trained = { ...sampleOf(3, false, false), sampledLogprobs: new Float64Array(3).fill(Math.log(0.1)) };
  const logprobs = Float64Array.from(ratios, (ratio) => Math.log(0.1 * ratio));
  const update = updateOf([trained, sampleOf(5, false, true)], () => ({ logprobs }));
  const expected = (0 + (0.5 - 1 + Math.LN2) + (3 - 1 - Math.log(3))) / 3;
  expect(updateMetrics(contextOf({}), update)['sampling/mismatch_kl']).toBeCloseTo(expected, 12);
});

describe('ratio_outside', () => {
  // The ratios of trainer to sampler, per completion.
  const ratios = [[1, 0.4, 2.5], [1, 1.5, 2]];
  const update = (masked: boolean) =>
    updateOf(
      ratios.map((own, i) => sampleOf(own.length, masked && i === 1, false)),
      (i) => ({ logprobs: Float64Array.from(ratios[i]!, (ratio) => Math.log(ratio) - 1) }),
    );
  const shareOf = (settings: object, masked = false) =>
    updateMetrics(contextOf(settings), update(masked))['sampling/ratio_outside'];
  const bounds = { importanceSamplingClipMin: 0.5, importanceSamplingClipMax: 2.2 };

  test.each(['token_truncate', 'token_mask'])('of tokens with %s', (importanceSamplingCorrection) => {
    expect(shareOf({ importanceSamplingCorrection, ...bounds })).toBeCloseTo(2 / 6, 12);
    expect(shareOf({ importanceSamplingCorrection, ...bounds }, true)).toBeCloseTo(2 / 3, 12);
    expect(shareOf({ importanceSamplingCorrection, importanceSamplingClipMax: 2.6 })).toBe(0);
  });

  test.each(['sequence_truncate', 'sequence_mask'])('of completions with %s', (importanceSamplingCorrection) => {
    // Their ratios are 1 and 3.
    expect(shareOf({ importanceSamplingCorrection, ...bounds })).toBe(1 / 2);
    expect(shareOf({ importanceSamplingCorrection, ...bounds }, true)).toBe(0);
  });

  test('is absent without a correction', () => expect(shareOf({})).toBeUndefined());
}); // prettier-ignore

test('entropy is over the tokens whose entropy is known, and left out when there are none', () => {
  const update = updateOf([sampleOf(3, false, false), sampleOf(5, false, true)], () => ({}));
  expect(updateMetrics(contextOf({}), { ...update, entropyTokens: 3 }).entropy).toBeCloseTo(12 / 3, 12);
  const none = { ...update, entropySum: 0, entropyTokens: 0 };
  expect(updateMetrics(contextOf({}), none)).not.toHaveProperty('entropy');
});

test('retries are summed over the ranks that count them', () => {
  const memory = { deviceTotalBytes: 0, peakTensorBytes: null } as MemoryReport;
  const context = { ...contextOf({}), memory: {} } as LoopContext;
  const update = updateOf([], () => ({}));
  const retries = (counts: (number | undefined)[] | null) => {
    const shares = counts?.map((count) => ({ newTokens: 1, elapsedMs: 1, ...(count !== undefined && { retries: count }) }));
    const timesMs = { generate: 1, reward: 0, score: 0 };
    const generated = shares ? ({ shares, timesMs } as unknown as GenerationBatch) : null;
    return costMetrics(context, generated, update, memory)['sampling/retries'];
  };
  expect(retries([2, undefined, 3])).toBe(5);
  expect(retries([0])).toBe(0);
  expect(retries([undefined])).toBeUndefined();
  expect(retries(null)).toBeUndefined();
}); // prettier-ignore

test('tokens of speculation are summed over the ranks that count them', () => {
  const share = { newTokens: 9, elapsedMs: 1 };
  const counted = [{ ...share, proposedTokens: 5, acceptedTokens: 2 }, share, { ...share, proposedTokens: 3, acceptedTokens: 3 }]; // prettier-ignore
  const on = contextOf({ numSpeculativeTokens: 4 });
  expect(speculationMetrics(on, { shares: counted })).toEqual({
    'sampling/speculation/proposed': 8,
    'sampling/speculation/accepted': 5,
  });
  expect(speculationMetrics(on, { shares: [share] })).toEqual({});
  expect(speculationMetrics(contextOf({}), { shares: counted })).toEqual({});
});

test('with dropout the gap is left out unless old log-probs were scored', () => {
  const fresh = updateOf([sampleOf(3, false, false)], () => ({}));
  const name = 'sampling/sampling_logp_difference/max';
  expect(updateMetrics(contextOf({ loraDropout: 0.1 }), fresh)).not.toHaveProperty(name);
  const scored = { ...sampleOf(3, false, false), oldLogprobs: new Float64Array(3).fill(-1) };
  const update = updateOf([scored], () => ({}));
  expect(updateMetrics(contextOf({ loraDropout: 0.1 }), update)[name]).toBe(0);
});

test('on-policy a skipped sequence counts in vespo/phi_seq_mean with weight 1, off-policy it does not', () => {
  const old = { ...sampleOf(3, false, true), oldLogprobs: new Float64Array(3) };
  const samples = [sampleOf(3, false, false), sampleOf(5, false, true), old];
  const update = updateOf(samples, () => ({ measures: { phi: 0.5 } }));
  expect(updateMetrics(contextOf({ lossType: 'vespo' }), update)['vespo/phi_seq_mean']).toBe(0.75);
});

test('a refused update has no norm or loss unless it was computed', () => {
  const samples = [sampleOf(3, false, false)];
  const refused = { ...updateOf(samples, () => ({})), applied: false, gradNorm: NaN };
  expect(updateMetrics(contextOf({}), refused)).not.toHaveProperty('grad_norm');
  const metrics = updateMetrics(contextOf({}), { ...refused, results: new Map() });
  expect(metrics).not.toHaveProperty('loss');
  expect(metrics.update_applied).toBe(0);
});
