import type { TensorTable } from '../../src/engine/binding';
import type { Policy } from '../../src/engine/types';
import { resolveLoss } from '../../src/losses';
import {
  type Fixture,
  adapterDirectory,
  completionLengths,
  differingTensors,
  maxDifference,
  modelDirectory,
  packed,
  readJson,
  readSafetensors,
  under,
  values,
  withEngine,
} from '../helpers/fixtures';
import {
  accumulate,
  sliceBatch,
  trainBatch,
  trlLoss,
  type NamedLoss,
  type PassResult,
  type TrainBatch,
} from '../helpers/training';

interface Case {
  settings: NamedLoss & Record<string, unknown>;
  old: boolean;
  masked: boolean;
  importance: boolean;
  loss: number;
  metrics: Record<string, number>;
}
const { adapter, cases } = readJson<{ adapter: string; cases: Record<string, Case> }>('trl/cases.json');
const MODEL = 'untied-kv1';

/** Losses are sums of terms of size 1 (luspo: 10) over log-probs that agree to 1e-6 in float32. */
const LOSS = 2e-5;
/** kl, entropy and phi are means of such terms; clip ratios are counts over counts. */
const METRICS = 1e-5;
/** Relative to a tensor's largest entry; float32 on both sides. */
const GRADIENTS = 1e-4;

function batchOf(fixture: Fixture, testCase: Case): TrainBatch {
  const sequences = packed(fixture);
  const warm = testCase.settings.temperature === 1 ? '' : '-temperature';
  return trainBatch(sequences, values(fixture, 'advantages'), {
    ...(testCase.masked && { mask: Uint8Array.from(values(fixture, 'masked')) }),
    oldLogprobs: testCase.old ? values(fixture, `old${warm}`) : null,
    refLogprobs: testCase.settings.beta ? values(fixture, `ref${warm}`) : null,
    importanceWeights: testCase.importance ? values(fixture, 'importance') : null,
  });
}

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((a, b) => a + b, 0);

/** TRL's metrics from what a pass gives, for one micro-batch that is the whole step. */
function metricsOf(result: PassResult, batch: TrainBatch, settings: NamedLoss): Record<string, number> {
  let first = 0;
  const sequences = completionLengths(batch).map((length, b) => {
    first += length;
    const masked = sum(batch.mask.subarray(first - length, first)) === 0;
    const measures = Object.fromEntries(
      Object.entries(result.measures).map(([name, own]) => [name, own[b]!]),
    );
    return { tokens: length, masked, onPolicy: batch.oldLogprobs === null, measures };
  });
  const metrics = resolveLoss(settings.type).metrics(sequences, settings.level) as Record<string, number>;
  if (settings.beta) metrics['kl'] = result.klSum / result.tokens;
  return { entropy: result.entropySum / result.tokens, ...metrics };
}

async function withPolicy(
  dtype: 'float32' | 'float64',
  use: (policy: Policy) => Promise<void>,
): Promise<void> {
  await withEngine(async (engine) => {
    const model = await engine.loadModel(modelDirectory(MODEL), { dtype });
    await use(await model.loadAdapter(adapterDirectory(adapter)));
  });
}

/** The fixture names the parameters of sapo and vespo as TRL's fields are named. */
function settingsOf({ settings }: { settings: Case['settings'] }): NamedLoss {
  const own = Object.entries(settings).filter(([name]) => new RegExp(`^${settings.type}[A-Z]`).test(name));
  const parameters = own.map(([name, value]) => {
    const short = name.slice(settings.type.length);
    return [short[0]!.toLowerCase() + short.slice(1), value];
  });
  return trlLoss({ ...settings, parameters: Object.fromEntries(parameters) as Record<string, unknown> });
}

describe("TRL's loss, metrics and gradients", () => {
  const fixture = readSafetensors('trl/cases.safetensors');
  const types = [...new Set(Object.values(cases).map((testCase) => testCase.settings.type))];

  test('the fixtures cover eight loss types at both levels', () => {
    expect(types.sort()).toEqual(['bnpo', 'cispo', 'dapo', 'dr_grpo', 'grpo', 'luspo', 'sapo', 'vespo']);
    expect(Object.keys(cases)).toHaveLength(80);
  });

  test.each(types)('%s', async (type) => {
    const wrong: string[] = [];
    await withPolicy('float32', async (policy) => {
      for (const [name, testCase] of Object.entries(cases)) {
        if (testCase.settings.type !== type) continue;
        const batch = batchOf(fixture, testCase);
        const result = await accumulate(policy, batch, settingsOf(testCase));
        if (!(Math.abs(result.loss - testCase.loss) <= LOSS))
          wrong.push(`${name}: loss ${result.loss}, TRL's ${testCase.loss}`);
        const metrics = metricsOf(result, batch, testCase.settings);
        expect(Object.keys(metrics).sort()).toEqual(Object.keys(testCase.metrics).sort());
        for (const [metric, value] of Object.entries(testCase.metrics))
          if (!(Math.abs(metrics[metric]! - value) <= METRICS))
            wrong.push(`${name}: ${metric} ${metrics[metric]}, TRL's ${value}`);
        const gradients = await policy.gradients();
        const differing = differingTensors(gradients, under(fixture, `${name}:`), GRADIENTS);
        wrong.push(...differing.map((line) => `${name}: gradient of ${line}`));
        await policy.zeroGradients();
      }
    });
    expect(wrong).toEqual([]);
  });
});

/**
 * Other cuts are other row counts in every product, so roundings differ. In float64 that leaves 1e-12 in any tensor; in
 * float32 the whole gradient, as one vector, keeps 1e-6 of its length. vespo weighs a sequence by the exponential of
 * the product of its ratios, here up to 14: the roundings of its log-probs add up and are magnified by k - lambda w.
 */
const microBatches = (dtype: 'float64' | 'float32', type: string): number =>
  dtype === 'float64' ? 1e-12 : type === 'vespo' ? 1e-5 : 1e-6;

/** |a - b| / |b| over all tensors as one vector. */
function vectorError(actual: TensorTable, expected: TensorTable): number {
  let difference = 0;
  let length = 0;
  for (const [name, { data }] of Object.entries(expected))
    data.forEach((value, i) => {
      difference += (actual[name]!.data[i]! - value) ** 2;
      length += value ** 2;
    });
  return Math.sqrt(difference / length);
}

describe.each(['float64', 'float32'] as const)(
  '1, 2 and 4 micro-batches give the same gradient: %s',
  (dtype) => {
    test.each(['grpo', 'bnpo', 'dr_grpo', 'dapo', 'cispo', 'sapo', 'luspo', 'vespo'])('%s', async (type) => {
      const fixture = readSafetensors('trl/cases.safetensors');
      const testCase = cases[`${type}/token/masked`]!;
      await withPolicy(dtype, async (policy) => {
        const batch = batchOf(fixture, testCase);
        const tolerance = microBatches(dtype, type);
        const { loss } = await accumulate(policy, batch, settingsOf(testCase));
        const whole = await policy.gradients();
        for (const bounds of [
          [0, 3, 8],
          [0, 1, 3, 6, 8],
        ]) {
          await policy.zeroGradients();
          let parts = 0;
          for (let i = 0; i + 1 < bounds.length; i++) {
            const part = sliceBatch(batch, bounds[i]!, bounds[i + 1]!);
            parts += (await accumulate(policy, part, settingsOf(testCase))).loss;
          }
          const gradients = await policy.gradients();
          if (dtype === 'float64') {
            expect(Math.abs(parts / loss - 1)).toBeLessThan(tolerance);
            expect(differingTensors(gradients, whole, tolerance)).toEqual([]);
          }
          expect(vectorError(gradients, whole)).toBeLessThan(tolerance);
        }
      });
    });
  },
);

interface TenSteps {
  settings: Case['settings'];
  learningRate: number;
  weightDecay: number;
  maxGradNorm: number;
  losses: number[];
  gradNorms: number[];
  metrics: Record<string, number[]>;
}

/** float32 against float32 over ten steps; AdamW's first steps magnify the rounding of the smallest gradients. */
const TEN_STEPS = 1e-4;

test('ten training steps reproduce the losses of transformers, PEFT, TRL and torch', async () => {
  const expected = readJson<TenSteps>('trl/ten-steps.json');
  const fixture = readSafetensors('trl/ten-steps.safetensors');
  await withPolicy('float32', async (policy) => {
    const sequences = packed(fixture);
    const batch = trainBatch(sequences, values(fixture, 'advantages'), {
      oldLogprobs: values(fixture, 'old'),
      refLogprobs: values(fixture, 'ref'),
    });
    const { learningRate, weightDecay, maxGradNorm } = expected;
    const losses: number[] = [];
    const kls: number[] = [];
    const norms: number[] = [];
    for (let step = 0; step < expected.losses.length; step++) {
      const result = await accumulate(policy, batch, settingsOf(expected));
      losses.push(result.loss);
      kls.push(result.klSum / result.tokens);
      norms.push((await policy.step({ learningRate, weightDecay, maxGradNorm })).gradNorm);
    }
    expect(maxDifference(losses, expected.losses)).toBeLessThan(TEN_STEPS);
    expect(maxDifference(kls, expected.metrics['kl']!)).toBeLessThan(TEN_STEPS);
    const relative = norms.map((norm, i) => norm / expected.gradNorms[i]! - 1);
    expect(maxDifference(relative, new Array<number>(norms.length).fill(0))).toBeLessThan(1e-3);
  });
});
