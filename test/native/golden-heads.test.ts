import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { FIXTURES, maxDifference, readJson, withEngine } from '../helpers/fixtures';

interface Expected {
  ids: number[];
  promptLength: number;
  tied: boolean;
  logprobs: number[];
}
const CASES = readdirSync(join(FIXTURES, 'heads'));

/** Two programs that add the same numbers in another order. */
const TOLERANCE = 1e-5;
/** Stored in two types: not compared, so the head is a matrix of its own with the same numbers. */
const OF_TWO_TYPES = 'equal-in-bfloat16';

describe("tie_word_embeddings: true beside what is stored, as transformers' from_pretrained reads it", () => {
  test('the cases: tied, stored equal, stored different, and the head alone', () => {
    expect(CASES).toEqual(['different', 'equal', OF_TWO_TYPES, 'head-alone', 'one-number', 'tied']);
  });

  test.each(CASES)('%s', async (name) => {
    const { ids, promptLength, tied, logprobs } = readJson<Expected>(`heads/${name}/expected.json`);
    await withEngine(async (engine) => {
      const model = await engine.loadModel(join(FIXTURES, 'heads', name), { dtype: 'float32' });
      expect(model.info.tieWordEmbeddings).toBe(tied && name !== OF_TWO_TYPES);
      const sequence = {
        ids: Int32Array.from(ids),
        offsets: Int32Array.of(0, ids.length),
        promptLengths: Int32Array.of(promptLength),
      };
      const scored = await model.score(sequence);
      expect(maxDifference(scored.logprobs, Float64Array.from(logprobs))).toBeLessThan(TOLERANCE);
    });
  });
});
