/** Decoding over keys and values in int8, against transformers over a cache that rounds them (scripts/fixtures). */
import { maxDifference, modelDirectory, readJson, withEngine } from '../helpers/fixtures';

interface Case {
  model: string;
  prompt: number[];
  ids: number[];
  logprobs: number[];
}
const CASES = readJson<Case[]>('decode/int8-cache.json');

// Transformers computes norms and softmax in float32 even here: 7e-7. Now and then that carries a number over the border
// between two codes, which moves a log-prob by up to 1e-4. All codes together move each case by 4e-4 to 4e-2.
const BOUND = 2e-4;

describe("greedy decoding over an int8 cache equals transformers' over a rounded one", () => {
  test.each([...new Set(CASES.map(({ model }) => model))])('%s', async (name) => {
    const chosen = CASES.filter(({ model }) => model === name);
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory(name), { dtype: 'float64' });
      const requests = chosen.map(({ prompt, ids }) => ({
        promptIds: Int32Array.from(prompt),
        seed: 0n,
        maxNewTokens: ids.length,
        stopIds: new Int32Array(),
        sampling: { temperature: 0 },
      }));
      const { sequences } = await model.generate(requests, { kvCacheDtype: 'int8' });
      expect(sequences.map(({ ids }) => [...ids])).toEqual(chosen.map(({ ids }) => ids));
      const found = sequences.flatMap(({ logprobs }) => [...logprobs]);
      expect(
        maxDifference(
          found,
          chosen.flatMap(({ logprobs }) => logprobs),
        ),
      ).toBeLessThan(BOUND);
    });
  });
});
