/**
 * Models in 4 and 8 bits against transformers and PEFT over the weights as bitsandbytes dequantises them. That the
 * weights are equal to its to the bit is tested in native/test/quantised_weights.cpp.
 */
import { join } from 'node:path';

import type { Model, Quantization } from '../../src/engine/types';
import {
  FIXTURES,
  differingTensors,
  maxDifference,
  packed,
  readJson,
  readSafetensors,
  under,
  values,
  withEngine,
} from '../helpers/fixtures';
import { surrogatePass } from '../helpers/training';

/** As for weights that are not quantised: two programs that add the same numbers in another order. */
const LOGPROBS = 1e-5;
const GRADIENTS = 1e-4;

const CASES = ['qwen3', 'llama'].flatMap((name) =>
  (['nf4', 'int8'] as const).map((quantization) => [name, quantization] as const),
);
const directoryOf = (name: string): string => join(FIXTURES, 'quantised', name);

const withModel = (name: string, quantization: Quantization, use: (model: Model) => Promise<void>) =>
  withEngine(async (engine) =>
    use(await engine.loadModel(directoryOf(name), { dtype: 'float32', quantization })),
  );

describe.each(CASES)('%s in %s', (name, quantization) => {
  const fixture = readSafetensors(`quantised/${name}-${quantization}.safetensors`);
  const sequences = packed(fixture);

  test("log-probs are transformers', with an adapter PEFT's", async () => {
    await withModel(name, quantization, async (model) => {
      expect(model.info).toMatchObject({ dtype: 'float32', quantization });
      const base = await model.score(sequences);
      expect(maxDifference(base.logprobs, values(fixture, 'base'))).toBeLessThan(LOGPROBS);
      const policy = await model.loadAdapter(directoryOf(`${name}-adapter`));
      const adapted = await model.score(sequences, { policy });
      expect(maxDifference(adapted.logprobs, values(fixture, 'adapted'))).toBeLessThan(LOGPROBS);
    });
  });

  test("gradients are PEFT's", async () => {
    await withModel(name, quantization, async (model) => {
      const policy = await model.loadAdapter(directoryOf(`${name}-adapter`));
      await surrogatePass(policy, sequences, values(fixture, 'advantages'));
      const gradients = await policy.gradients();
      expect(differingTensors(gradients, under(fixture, 'gradient.'), GRADIENTS)).toEqual([]);
    });
  });

  test("greedy decoding is transformers'", async () => {
    const all =
      readJson<{ model: string; form: string; prompt: number[]; ids: number[] }[]>('quantised/greedy.json');
    const cases = all.filter(({ model, form }) => model === name && form === quantization);
    expect(cases).toHaveLength(4);
    await withModel(name, quantization, async (model) => {
      const { sequences: generated } = await model.generate(
        cases.map(({ prompt, ids }) => ({
          promptIds: Int32Array.from(prompt),
          seed: 0n,
          maxNewTokens: ids.length,
          stopIds: new Int32Array(),
          sampling: { temperature: 0 },
        })),
      );
      expect(generated.map(({ ids }) => [...ids])).toEqual(cases.map(({ ids }) => ids));
    });
  });
});

test('what cannot be quantised is refused in a sentence', async () => {
  await withEngine(async (engine) => {
    // Its rows of 24 and 40 are no whole blocks.
    const other = join(FIXTURES, 'models', 'untied-kv1');
    await expect(engine.loadModel(other, { quantization: 'nf4' })).rejects.toMatchObject({
      code: 'BAD_ARGUMENT',
      message: expect.stringMatching(/no multiple of 64; quantise to int8, or not at all/) as string,
    });
    const model = await engine.loadModel(directoryOf('qwen3'), { dtype: 'float32', quantization: 'int8' });
    await expect(model.createPolicy({ kind: 'full' })).rejects.toMatchObject({ code: 'BAD_ARGUMENT' });
    const unknown = { quantization: 'fp4' as Quantization };
    await expect(engine.loadModel(directoryOf('qwen3'), unknown)).rejects.toMatchObject({
      code: 'BAD_ARGUMENT',
      message: expect.stringContaining('must be one of nf4, int8') as string,
    });
  });
});
