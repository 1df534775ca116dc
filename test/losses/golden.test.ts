/**
 * Every loss, its slopes and its metrics against TRL 1.13's own _compute_loss (scripts/fixtures/losses.py),
 * in float64.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { resolveConfig, type Config } from '../../src/config';
import { lossBatch, lossSettings } from '../../src/grpo/loss';
import type { Sample } from '../../src/grpo/sample';
import {
  entropyThreshold,
  importanceWeights,
  listLosses,
  resolveLoss,
  type LossBatch,
  type LossSettings,
} from '../../src/losses';
import { maxDifference } from '../helpers/fixtures';

type Mode = NonNullable<Config['importanceSamplingCorrection']>;

interface Case {
  settings: Record<string, number | string | boolean | null> & { type: string; level: LossSettings['level'] };
  old: boolean;
  masked: boolean;
  importance: boolean;
  correction?: [Mode, number | null, number | null];
  topEntropyQuantile?: number;
  offPolicyMaskThreshold?: number;
  loss: number;
  metrics: Record<string, number>;
  slopes: number[];
}

interface Golden {
  lengths: number[];
  advantages: number[];
  masked: number[];
  logprobs: number[];
  entropies: number[];
  old: number[];
  ref: number[];
  sampled: number[];
  importance: number[];
  weights: {
    mode: Mode;
    min: number | null;
    max: number | null;
    weights: number[];
    metrics: Record<string, number>;
  }[];
  cases: Record<string, Case>;
}

const golden = JSON.parse(
  readFileSync(join(__dirname, '..', 'fixtures', 'losses', 'cases.json'), 'utf8'),
) as Golden;
const { lengths } = golden;
const offsets = Int32Array.from([
  0,
  ...lengths.map((_, b) => lengths.slice(0, b + 1).reduce((a, c) => a + c, 0)),
]);
const part = (numbers: readonly number[], b: number) =>
  Float64Array.from(numbers.slice(offsets[b], offsets[b + 1]));

/** Float64 on both sides; TRL sums in another order, and reduces some metrics in float32. */
const LOSS = 1e-12;
const METRICS = 1e-6;

const samplesOf = (c: Case): Sample[] =>
  lengths.map((length, b) => ({
    promptIds: Int32Array.of(1),
    completionIds: new Int32Array(length),
    promptIndex: b,
    sample: 0,
    sampledLogprobs: part(golden.sampled, b),
    entropies: part(golden.entropies, b),
    reward: 0,
    advantage: golden.advantages[b]!,
    masked: c.masked && golden.masked.includes(b),
    skipped: false,
    oldLogprobs: c.old ? part(golden.old, b) : null,
    refLogprobs: c.settings['beta'] ? part(golden.ref, b) : null,
  }));

const lossParamsOf = ({ settings }: Case) => ({
  sapo: { temperaturePos: settings['sapoTemperaturePos'], temperatureNeg: settings['sapoTemperatureNeg'] },
  vespo: {
    kPos: settings['vespoKPos'],
    lambdaPos: settings['vespoLambdaPos'],
    kNeg: settings['vespoKNeg'],
    lambdaNeg: settings['vespoLambdaNeg'],
  },
});

function configOf(c: Case): Config {
  const { settings, correction } = c;
  return resolveConfig([
    {
      model: 'tiny',
      lossType: settings.type,
      lossParams: lossParamsOf(c),
      importanceSamplingLevel: settings.level,
      epsilon: settings['epsilonLow'] as number,
      epsilonHigh: settings['epsilonHigh'] as number,
      delta: settings['delta'] as number | null,
      beta: settings['beta'] as number,
      useBiasCorrectionKl: settings['klBiasCorrection'] as boolean,
      importanceSamplingCorrection: correction?.[0] ?? null,
      importanceSamplingClipMin: correction?.[1] ?? null,
      importanceSamplingClipMax: correction === undefined ? 3 : correction[2],
      topEntropyQuantile: c.topEntropyQuantile ?? 1,
      offPolicyMaskThreshold: c.offPolicyMaskThreshold ?? null,
    },
  ]);
}

/** The tokens of highest entropy, as an update picks them. */
function keptOf({ topEntropyQuantile }: Config, samples: readonly Sample[]) {
  if (topEntropyQuantile === 1) return null;
  const counted = samples.filter((sample) => !sample.masked).map((sample) => sample.entropies!);
  const threshold = entropyThreshold(
    Float64Array.from(counted.flatMap((own) => [...own])),
    topEntropyQuantile,
  );
  return new Map(samples.map((s) => [s, Uint8Array.from(s.entropies!, (e) => Number(e >= threshold))]));
}

function computed(c: Case) {
  const config = configOf(c);
  const samples = samplesOf(c);
  const batch: LossBatch = lossBatch(
    config,
    samples,
    Float64Array.from(golden.logprobs),
    keptOf(config, samples),
  );
  if (c.importance) batch.importanceWeights = Float64Array.from(golden.importance);
  const loss = resolveLoss(config.lossType, config.lossParams[config.lossType]);
  const settings = lossSettings(config, c.settings['normalizer'] as number);
  return { config, samples, batch, loss, settings, result: loss.compute(batch, settings) };
}

const named = Object.entries(golden.cases);

test('the fixture has all eight losses at both levels, with the corrections', () => {
  expect(new Set(named.map(([, c]) => c.settings.type))).toEqual(
    new Set(listLosses().map(({ name }) => name)),
  );
  expect(named.filter(([, c]) => c.correction !== undefined).length).toBeGreaterThanOrEqual(18);
  expect(named.filter(([, c]) => c.topEntropyQuantile !== undefined).length).toBeGreaterThanOrEqual(16);
  expect(named.filter(([, c]) => c.offPolicyMaskThreshold !== undefined).length).toBeGreaterThanOrEqual(16);
});

test.each(named)('%s: loss and slopes are those of TRL', (_, c) => {
  const { result } = computed(c);
  expect(Math.abs(result.loss - c.loss)).toBeLessThan(LOSS * Math.max(1, Math.abs(c.loss)));
  expect(maxDifference(result.slopes, c.slopes)).toBeLessThan(LOSS);
});

test.each(named)('%s: metrics are those of TRL', (_, c) => {
  const { config, samples, batch, loss, result } = computed(c);
  const sequences = samples.map(({ completionIds, masked, oldLogprobs }, b) => ({
    tokens: completionIds.length,
    masked,
    onPolicy: oldLogprobs === null,
    measures: Object.fromEntries(Object.entries(result.measures).map(([name, values]) => [name, values[b]!])),
  }));
  const metrics: Record<string, number | undefined> = {
    ...loss.metrics(sequences, config.importanceSamplingLevel),
  };
  const tokens = batch.mask.reduce((sum, counted) => sum + counted, 0);
  if (config.beta !== 0) metrics['kl'] = result.klSum / tokens;
  for (const [name, value] of Object.entries(metrics))
    expect([name, value]).toEqual([name, expect.closeTo(c.metrics[name]!, -Math.log10(METRICS))]);
});

test.each(golden.weights)(
  'weights of the correction: $mode from $min to $max',
  ({ mode, min, max, weights }) => {
    const mask = new Uint8Array(golden.logprobs.length).fill(1);
    const [old, sampled] = [golden.old, golden.sampled].map((numbers) => Float64Array.from(numbers)) as [
      Float64Array,
      Float64Array,
    ];
    const made = importanceWeights({ offsets, mask }, old, sampled, { mode, min, max });
    const expected = mode.startsWith('sequence')
      ? lengths.flatMap((length, b) => new Array<number>(length).fill(weights[b]!))
      : weights;
    expect(maxDifference(made, expected)).toBeLessThan(LOSS);
    expect(new Set(made).size).toBeGreaterThan(1);
  },
);

/** Without cispo and vespo, whose detached weights have no derivative. */
const differentiable = listLosses()
  .map(({ name }) => name)
  .filter((name) => name !== 'cispo' && name !== 'vespo');

/** Slopes against central differences where TRL has no case: every such loss, split like the golden cases. */
test.each(differentiable)('%s: slopes are the derivative of the loss', (type) => {
  const c = { ...golden.cases[`${type}/token/off-policy-kl`]! };
  const { batch, loss, settings, result } = computed(c);
  const step = 1e-6;
  for (let t = 0; t < batch.logprobs.length; t += 7) {
    const at = (shift: number) => {
      const logprobs = batch.logprobs.slice();
      logprobs[t]! += shift;
      return loss.compute({ ...batch, logprobs }, settings).loss;
    };
    expect(result.slopes[t]).toBeCloseTo((at(step) - at(-step)) / (2 * step), 7);
  }
});
