import type { SamplingOptions } from '../../src/engine/types';
import { differingTensors, maxDifference, packed, values, type Fixture } from '../helpers/fixtures';
import { REAL_ADAPTER, realJson, realTensors, withRealModel } from '../helpers/real-model';
import { accumulate, surrogatePass, trainBatch, trlLoss } from '../helpers/training';

const mean = (numbers: Float64Array): number => numbers.reduce((a, b) => a + b, 0) / numbers.length;
const differences = (a: Float64Array, b: Float64Array) => a.map((value, i) => Math.abs(value - b[i]!));

const gradientsIn = (fixture: Fixture): Fixture =>
  Object.fromEntries(Object.entries(fixture).filter(([name]) => name.includes('.lora_')));

describe("log-probs of 2,512 tokens of text against transformers'", () => {
  const fixture = realTensors('logprobs.safetensors');
  const sequences = packed(fixture);

  test('float32: within 1e-4', async () => {
    await withRealModel('float32', async (model) => {
      const { logprobs, entropies } = await model.score(sequences);
      expect(maxDifference(logprobs, values(fixture, 'float32.logprobs'))).toBeLessThan(1e-4);
      expect(maxDifference(entropies, values(fixture, 'float32.entropies'))).toBeLessThan(1e-4);
    });
  });

  // Two bfloat16 passes that round in other places; each is as far from float32 as transformers' is.
  test('bfloat16: as near to float32 as transformers', async () => {
    const exact = values(fixture, 'float32.logprobs');
    const theirs = mean(differences(values(fixture, 'bfloat16.logprobs'), exact));
    await withRealModel('bfloat16', async (model) => {
      const { logprobs } = await model.score(sequences);
      const ours = mean(differences(logprobs, exact));
      expect(ours).toBeLessThan(1.05 * theirs);
    });
  });
});

test.each([0, 4])("greedy decoding gives transformers' 414 tokens, with %d proposed", async (count) => {
  const cases = realJson<{ prompt: number[]; ids: number[] }[]>('greedy.json');
  expect(cases.reduce((sum, { ids }) => sum + ids.length, 0)).toBeGreaterThan(300);
  await withRealModel('float32', async (model) => {
    const requests = cases.map(({ prompt, ids }) => ({
      promptIds: Int32Array.from(prompt),
      seed: 1n,
      maxNewTokens: ids.length,
      stopIds: Int32Array.of(2),
      sampling: { temperature: 0 },
    }));
    const { sequences, stats } = await model.generate(requests, { numSpeculativeTokens: count });
    expect(sequences.map(({ ids }) => [...ids])).toEqual(cases.map(({ ids }) => ids));
    expect(stats.acceptedTokens > 0).toBe(count > 0);
  });
});

test('proposed tokens change no bit in bfloat16', async () => {
  const cases = realJson<{ prompt: number[] }[]>('greedy.json');
  await withRealModel('bfloat16', async (model) => {
    const requests = cases.slice(0, 4).map(({ prompt }, i) => ({
      promptIds: Int32Array.from(prompt),
      numSamples: 2,
      seed: BigInt(i),
      maxNewTokens: 64,
      stopIds: Int32Array.of(2),
      sampling: { temperature: 0.7 },
    }));
    const [without, four] = [
      await model.generate(requests),
      await model.generate(requests, { numSpeculativeTokens: 4 }),
    ];
    expect(four.sequences).toEqual(without.sequences);
    expect(four.stats.acceptedTokens).toBeGreaterThan(0);
    expect(four.stats.decodeSteps).toBeLessThan(without.stats.decodeSteps);
  });
});

interface SamplerCase {
  name: string;
  setting: Partial<SamplingOptions>;
  prompt: number[];
  samples: number;
  seed: number;
  /** Tokens with a cell of their own, and their probabilities. */
  tokens: number[];
  probabilities: number[];
  df: number;
  /** The chi-square value whose upper tail is 1e-3 (scipy). */
  critical: number;
  /** All tokens that may be drawn, where the setting forbids any. */
  allowed: number[] | null;
}

describe("sampled tokens follow transformers' processors", () => {
  const { minCell, cases } = realJson<{ minCell: number; cases: SamplerCase[] }>('sampler.json');

  test.each(cases)('$name', async ({ setting, prompt, samples, seed, ...expected }) => {
    await withRealModel('float32', async (model) => {
      const promptIds = Int32Array.from(prompt);
      const request = { promptIds, numSamples: samples, seed: BigInt(seed), sampling: setting };
      const { sequences } = await model.generate([{ ...request, maxNewTokens: 1, stopIds: Int32Array.of() }]);
      const drawn = sequences.map(({ ids }) => ids[0]!);
      const allowed = expected.allowed && new Set(expected.allowed);
      expect(drawn.filter((id) => allowed?.has(id) === false)).toEqual([]);
      const counts = new Map<number, number>();
      for (const id of drawn) counts.set(id, (counts.get(id) ?? 0) + 1);
      const cells = expected.tokens.map((id, i) => [
        counts.get(id) ?? 0,
        expected.probabilities[i]! * samples,
      ]);
      const [observed, wanted] = [0, 1].map((k) => cells.reduce((sum, cell) => sum + cell[k]!, 0));
      if (samples - wanted! >= minCell) cells.push([samples - observed!, samples - wanted!]);
      expect(cells).toHaveLength(expected.df + 1);
      const statistic = cells.reduce((sum, [count, mean]) => sum + (count! - mean!) ** 2 / mean!, 0);
      expect(statistic).toBeLessThan(expected.critical);
    });
  });
});

test("LoRA gradients are PEFT's", async () => {
  const fixture = realTensors('gradients.safetensors');
  await withRealModel('float32', async (model) => {
    const policy = await model.loadAdapter(REAL_ADAPTER);
    const { logprobs } = await policy.forward(packed(fixture));
    expect(maxDifference(logprobs, values(fixture, 'logprobs'))).toBeLessThan(1e-4);
    await surrogatePass(policy, packed(fixture), values(fixture, 'advantages'));
    expect(differingTensors(await policy.gradients(), gradientsIn(fixture), 1e-3)).toEqual([]);
  });
});

test("a GRPO step has TRL's loss, metrics and gradients", async () => {
  const fixture = realTensors('trl.safetensors');
  const trl = realJson<{ loss: number; beta: number; metrics: Record<string, number> }>('trl.json');
  await withRealModel('float32', async (model) => {
    const policy = await model.loadAdapter(REAL_ADAPTER);
    const sequences = packed(fixture);
    const batch = trainBatch(sequences, values(fixture, 'advantages'), {
      oldLogprobs: values(fixture, 'old'),
      refLogprobs: values(fixture, 'reference'),
    });
    const settings = trlLoss({ type: 'grpo', beta: trl.beta, normalizer: sequences.promptLengths.length });
    const result = await accumulate(policy, batch, settings);
    expect(Math.abs(result.loss - trl.loss)).toBeLessThan(2e-5);
    expect(Math.abs(result.klSum / result.tokens - trl.metrics['kl']!)).toBeLessThan(1e-5);
    expect(Math.abs(result.entropySum / result.tokens - trl.metrics['entropy']!)).toBeLessThan(1e-4);
    expect(differingTensors(await policy.gradients(), gradientsIn(fixture), 1e-3)).toEqual([]);
  });
});

/**
 * A sampler's log-prob and the trainer's come from sums in different orders, each rounded to bfloat16 between layers:
 * they differ by about as much as transformers' bfloat16 from float32 on this model, 0.037 on average.
 */
const BFLOAT16 = 0.05;

test('the sampler and the trainer agree in bfloat16', async () => {
  const cases = realJson<{ prompt: number[] }[]>('greedy.json');
  await withRealModel('bfloat16', async (model) => {
    const requests = cases.map(({ prompt }, i) => ({
      promptIds: Int32Array.from(prompt),
      numSamples: 4,
      seed: BigInt(i),
      maxNewTokens: 64,
      stopIds: Int32Array.of(2),
    }));
    const { sequences } = await model.generate(requests);
    const rows = sequences.map(({ request, ids }) => [...cases[request]!.prompt, ...ids]);
    const offsets = new Int32Array(rows.length + 1);
    rows.forEach((row, i) => (offsets[i + 1] = offsets[i]! + row.length));
    const promptLengths = Int32Array.from(sequences, ({ request }) => cases[request]!.prompt.length);
    const { logprobs } = await model.score({ ids: Int32Array.from(rows.flat()), offsets, promptLengths });
    const sampled = Float64Array.from(sequences.flatMap((sequence) => [...sequence.logprobs]));
    expect(sampled.length).toBeGreaterThan(1000);
    expect(mean(differences(sampled, logprobs))).toBeLessThan(BFLOAT16);
  });
});
