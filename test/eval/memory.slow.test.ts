/** Five thousand long answers: only their figures stay in memory, not their texts. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { answerProblems } from '../../src/eval';
import type { Model } from '../../src/engine/types';
import { statsOf } from '../helpers/fake-engine';
import { FAKE_IDS as id, fakeDataset, fakeTokenizer } from '../helpers/fake-tokenizer';

const PROBLEMS = 5_000;
const LENGTH = 2_000;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Answers with a boxed digit after thousands of letters, one after another, without keeping any. */
const model = {
  info: { maxPositions: 40_960 },
  generate: async (requests, options) => {
    expect(options?.collect).toBe(false);
    expect(requests.length).toBeLessThanOrEqual(1024);
    for (const request of requests.keys()) {
      const ids = new Int32Array(LENGTH).fill(id.letter);
      ids.set(
        [id.closeThink, id.boxed, id.openBrace, ...Array<number>(30).fill(id.letter), id.closeBrace, id.eos],
        LENGTH - 35,
      );
      const none = new Float64Array(LENGTH);
      options?.onSequence?.({ request, sample: 0, ids, logprobs: none, entropies: none, finish: 'stop' });
      if (request % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return { sequences: [], stats: statsOf(0) };
  },
} as Pick<Model, 'generate'> & { info: object } as Model;

test('memory stays flat over 5,000 problems', async () => {
  let peak = 0;
  let texts = 0;
  const before = process.memoryUsage().heapUsed;
  const rows = await answerProblems({
    model,
    policy: null,
    tokenizer: fakeTokenizer,
    dataset: fakeDataset(PROBLEMS),
    n: PROBLEMS,
    sampling: 'greedy',
    maxNewTokens: 16_384,
    promptTemplate: '{problem}',
    onCompletion: ({ index, text }) => {
      texts += text.length;
      if (index % 500 === 499) {
        collectGarbage();
        peak = Math.max(peak, process.memoryUsage().heapUsed - before);
      }
    },
  });
  expect(rows).toHaveLength(PROBLEMS);
  expect(rows[0]!.verdict.extracted).toHaveLength(30);
  expect(texts).toBeGreaterThan(PROBLEMS * 1_900);
  const kept = JSON.stringify(rows).length;
  expect(kept).toBeLessThan(2e6);
  // Kept texts would be 10 MB, kept ids 40 MB; the rows are 2, plus the prompts of a window and their
  // requests.
  expect(peak).toBeLessThan(9e6);
});
