import { evaluate, type EvalCompletion, type EvalOptions, summarise, type Graded } from '../../src/eval';
import type { GenerateRequest, Model } from '../../src/engine/types';
import type { Problem } from '../../src/base/types';
import { statsOf } from '../helpers/fake-engine';
import { FAKE_IDS as id, fakeTokenizer } from '../helpers/fake-tokenizer';

function graded(level: string, correct: boolean, thinkingTokens: number, totalTokens: number): Graded {
  return {
    level,
    verdict: { correct, status: correct ? 'correct' : 'incorrect', extracted: '1' },
    thinkingTokens,
    thinkingClosed: true,
    totalTokens,
    truncated: totalTokens === 100,
  };
}

test('the summary’s figures', () => {
  const rows = [
    graded('2', true, 10, 20),
    graded('1', true, 20, 30),
    graded('10', false, 60, 100),
    graded('1', false, 30, 50),
  ];
  const summary = summarise(rows);
  expect(summary).toEqual({
    n: 4,
    accuracy: 0.5,
    thinkingTokens: 30,
    totalTokens: 50,
    medianThinkingTokens: 25,
    medianTotalTokens: 40,
    accuracyPer1kTokens: 1000,
    correct: { n: 2, thinkingTokens: 15, totalTokens: 25 },
    incorrect: { n: 2, thinkingTokens: 45, totalTokens: 75 },
    truncated: 0.25,
    perLevel: {
      '1': { accuracy: 0.5, thinkingTokens: 25, totalTokens: 40, n: 2 },
      '2': { accuracy: 1, thinkingTokens: 10, totalTokens: 20, n: 1 },
      '10': { accuracy: 0, thinkingTokens: 60, totalTokens: 100, n: 1 },
    },
  });
  expect(Object.keys(summary.perLevel)).toEqual(['1', '2', '10']);
  expect(summarise(rows.slice(0, 3)).medianThinkingTokens).toBe(20);
});

test('no correct answer, no tokens: zeros without division by zero', () => {
  expect(summarise([graded('1', false, 0, 0)])).toMatchObject({ accuracyPer1kTokens: 0, correct: { n: 0 } });
});

/** Answers every request with its digit after `length` letters of thinking; every third answer is wrong. */
function scriptedModel(requests: GenerateRequest[], cancelAfter = Infinity): Model {
  const generate: Model['generate'] = (asked, options) => {
    requests.push(...asked);
    const order = asked.map((_, i) => i).reverse();
    for (const [ended, request] of order.entries()) {
      const answer = [id.boxed, id.openBrace, id.digit + ((request + Number(request % 3 === 2)) % 10)];
      const thought = Array<number>(request).fill(id.letter);
      const ids = [id.openThink, ...thought, id.closeThink, ...answer, id.closeBrace, id.eos];
      options?.onSequence?.({
        request,
        sample: 0,
        ids: Int32Array.from(ids),
        logprobs: new Float64Array(ids.length),
        entropies: new Float64Array(ids.length),
        finish: ended >= cancelAfter ? 'cancelled' : 'stop',
      });
    }
    return Promise.resolve({ sequences: [], stats: statsOf(0) });
  };
  return { generate, info: { maxPositions: 4096 } } as unknown as Model;
}

const problems: Problem[] = Array.from({ length: 7 }, (_, i) => ({
  id: String(i),
  question: `say ${i}`,
  gold: String(i),
  level: i < 4 ? '1' : '2',
}));

function options(requests: GenerateRequest[], changes: Partial<EvalOptions> = {}): EvalOptions {
  return {
    model: scriptedModel(requests),
    policy: null,
    tokenizer: fakeTokenizer,
    dataset: { name: 'digits', size: problems.length, get: (index) => problems[index]! },
    n: 6,
    sampling: 'greedy',
    maxNewTokens: 32,
    promptTemplate: '{problem}',
    ...changes,
  };
}

test('one greedy completion per problem, graded as it ends', async () => {
  const requests: GenerateRequest[] = [];
  const seen: EvalCompletion[] = [];
  const progress: number[] = [];
  const summary = await evaluate(
    options(requests, {
      onCompletion: (completion) => seen.push(completion),
      onProgress: ({ done, total }) => progress.push(done / total),
    }),
  );
  expect(requests).toHaveLength(6);
  expect(requests[0]).toMatchObject({ maxNewTokens: 32, sampling: { temperature: 0 }, policy: null });
  expect([...requests[0]!.stopIds]).toEqual([id.eos]);
  expect(summary).toMatchObject({ n: 6, accuracy: 4 / 6, thinkingTokens: 2.5, totalTokens: 9.5 });
  expect(summary.perLevel['2']).toEqual({ accuracy: 0.5, thinkingTokens: 4.5, totalTokens: 11.5, n: 2 });
  expect(seen.map(({ index }) => index)).toEqual([5, 4, 3, 2, 1, 0]);
  expect(seen[0]!.verdict).toEqual({ correct: false, status: 'incorrect', extracted: '6' });
  expect(progress.at(-1)).toBe(1);
});

test('sampling: each problem has its own seed, a function of the given seed', async () => {
  const [first, again, other]: GenerateRequest[][] = [[], [], []];
  await evaluate(options(first!, { sampling: { temperature: 0.7, seed: 1 } }));
  await evaluate(options(again!, { sampling: { temperature: 0.7, seed: 1 } }));
  await evaluate(options(other!, { sampling: { temperature: 0.7, seed: 2 } }));
  const seeds = (requests: GenerateRequest[]) => requests.map(({ seed }) => seed);
  expect(new Set(seeds(first!)).size).toBe(6);
  expect(seeds(again!)).toEqual(seeds(first!));
  expect(seeds(other!)).not.toEqual(seeds(first!));
  expect(first![0]!.sampling).toEqual({ temperature: 0.7 });
});

test('asking for more problems than there are gives all of them, once', async () => {
  const requests: GenerateRequest[] = [];
  expect((await evaluate(options(requests, { n: 100 }))).n).toBe(7);
});

test('a cancelled evaluation gives no figures', async () => {
  await expect(evaluate(options([], { model: scriptedModel([], 3) }))).rejects.toMatchObject({
    code: 'CANCELLED',
  });
});

test('n below 1 is rejected', async () => {
  await expect(evaluate(options([], { n: 0 }))).rejects.toMatchObject({ code: 'BAD_ARGUMENT' });
});
