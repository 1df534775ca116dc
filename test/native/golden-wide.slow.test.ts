import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { maxDifference, packed, readJson, readSafetensors, values, withEngine } from '../helpers/fixtures';
import { type HashedModel, writeHashedModel } from '../helpers/hashed-model';

/** Sums of 2,048 and 6,144 float32 products; transformers' own float32 is 4e-6 from float64 here. */
const FLOAT32 = 1e-5;

describe("two layers at Qwen3-1.7B's widths", () => {
  let directory: string;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'acoer-wide-'));
    writeHashedModel(directory, readJson<HashedModel>('wide/model.json'));
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  test('log-probs and entropies in float32', async () => {
    const fixture = readSafetensors('wide/expected.safetensors');
    await withEngine(async (engine) => {
      const model = await engine.loadModel(directory, { dtype: 'float32' });
      expect(model.info).toMatchObject({ hiddenSize: 2048, numKvHeads: 8, headDim: 128, vocabSize: 151936 });
      const { logprobs, entropies } = await model.score(packed(fixture));
      expect(maxDifference(logprobs, values(fixture, 'logprobs.float32'))).toBeLessThan(FLOAT32);
      // Sums over 151,936 tokens: transformers' float32 is 9.9e-6 from float64, so float64 is the reference.
      expect(maxDifference(entropies, values(fixture, 'entropies.float64'))).toBeLessThan(FLOAT32);
    });
  });
});
