import { modelDirectory, readJson, readSafetensors, values, withEngine } from '../helpers/fixtures';
import type { Model, SamplingOptions } from '../../src/engine/types';

interface Bound {
  df: number;
  /** The chi-square value whose upper tail is 1e-3 (scipy). */
  critical: number;
}
interface SamplerCase {
  name: string;
  setting: Partial<SamplingOptions>;
  prompt: number[];
  samples: number;
  seed: number;
  first: Bound;
  pairs?: Bound;
}
const { minCell, cases } = readJson<{ minCell: number; cases: SamplerCase[] }>('decode/sampler.json');
const PROBABILITIES = readSafetensors('decode/probabilities.safetensors');

/** Pearson's statistic and its degrees of freedom; cells expected below `minCell` are pooled. */
function chiSquare(drawn: number[], probabilities: Float64Array): { statistic: number; df: number } {
  const observed = new Array<number>(probabilities.length).fill(0);
  for (const cell of drawn) observed[cell]!++;
  let statistic = 0;
  let cells = 0;
  let pooledExpected = 0;
  let pooledObserved = 0;
  const add = (count: number, expected: number): void => {
    statistic += (count - expected) ** 2 / expected;
    cells++;
  };
  probabilities.forEach((probability, cell) => {
    const expected = probability * drawn.length;
    if (expected >= minCell) add(observed[cell]!, expected);
    else {
      pooledExpected += expected;
      pooledObserved += observed[cell]!;
    }
  });
  if (pooledExpected >= minCell) add(pooledObserved, pooledExpected);
  return { statistic, df: cells - 1 };
}

async function draw(model: Model, one: SamplerCase, maxNewTokens: number): Promise<number[][]> {
  const { sequences } = await model.generate([
    {
      promptIds: Int32Array.from(one.prompt),
      numSamples: one.samples,
      seed: BigInt(one.seed),
      maxNewTokens,
      stopIds: new Int32Array(),
      sampling: one.setting,
    },
  ]);
  expect(sequences).toHaveLength(one.samples);
  return sequences.map(({ ids }) => [...ids]);
}

/**
 * Expected probabilities are transformers' logits through transformers' own processors. Seeds are fixed, so a run
 * that passes passes always; p > 1e-3 would fail one right sampler in a thousand seeds.
 */
describe('chi-square of sampled tokens', () => {
  test.each(cases.map((one) => [one.name, one] as const))('%s', async (name, one) => {
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory('tied-kv2'), { dtype: 'float32' });
      const probabilities = values(PROBABILITIES, `${name}.first`);
      const drawn = (await draw(model, one, 1)).map(([id]) => id!);
      expect(drawn.filter((id) => probabilities[id] === 0)).toEqual([]);
      const { statistic, df } = chiSquare(drawn, probabilities);
      expect(df).toBe(one.first.df);
      expect(statistic).toBeLessThan(one.first.critical);
    });
  });

  // The second token given the first: noise must differ between positions.
  const paired = cases.filter(({ pairs }) => pairs);
  test.each(paired.map((one) => [one.name, one] as const))('two tokens in a row: %s', async (name, one) => {
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory('tied-kv2'), { dtype: 'float32' });
      const vocab = model.info.vocabSize;
      const drawn = (await draw(model, one, 2)).map(([a, b]) => a! * vocab + b!);
      const { statistic, df } = chiSquare(drawn, values(PROBABILITIES, `${name}.pairs`));
      expect(df).toBe(one.pairs!.df);
      expect(statistic).toBeLessThan(one.pairs!.critical);
    });
  });

  test('neighbouring samples are independent', async () => {
    const one = cases.find(({ name }) => name === 'top-p')!;
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory('tied-kv2'), { dtype: 'float32' });
      const single = values(PROBABILITIES, 'top-p.first');
      const vocab = single.length;
      const ids = (await draw(model, one, 1)).map(([id]) => id!);
      const pairs = Array.from({ length: ids.length / 2 }, (_, i) => ids[2 * i]! * vocab + ids[2 * i + 1]!);
      const joint = new Float64Array(vocab * vocab);
      for (let a = 0; a < vocab; a++)
        for (let b = 0; b < vocab; b++) joint[a * vocab + b] = single[a]! * single[b]!;
      const { statistic, df } = chiSquare(pairs, joint);
      // Wilson and Hilferty's approximation of the chi-square quantile at p = 1e-3 (z = 3.0902).
      const critical = df * (1 - 2 / (9 * df) + 3.0902 * Math.sqrt(2 / (9 * df))) ** 3;
      expect(statistic).toBeLessThan(critical);
    });
  });
});
