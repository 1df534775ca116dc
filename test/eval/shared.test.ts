/** Several ranks in one process give the answers of one, and all of them end when one fails or is stopped. */
import { AcoerError, errorCode, errorMessage } from '../../src/base/errors';
import { answerProblems, answerTogether, type EvalCompletion, type EvalOptions } from '../../src/eval';
import { dealtAnswers } from '../../src/eval/shared';
import type { Model } from '../../src/engine/types';
import { gradeMath } from '../../src/judges';
import { Ranks, type ProcessGroup } from '../../src/ranks';
import { FakeEngine, type FakeFaults } from '../helpers/fake-engine';
import { fakeEvaluation, fakeTokenizer } from '../helpers/fake-tokenizer';
import { groupsInProcess } from '../helpers/ranks-in-process';

const EVERY_MS = 20;
const SAMPLED = { temperature: 1, seed: 7 };
const dataset = fakeEvaluation(30);

async function optionsOf(more: Partial<EvalOptions> = {}, faults: FakeFaults = {}): Promise<EvalOptions> {
  const model: Model = await new FakeEngine(faults).loadModel();
  const about = { model, policy: null, tokenizer: fakeTokenizer, dataset, promptTemplate: '{problem}' };
  return { ...about, n: 12, samples: 2, sampling: SAMPLED, maxNewTokens: 60, ...more };
}

/** What the caller gets of an answer, in the order of problems and samples. */
const ordered = (completions: readonly EvalCompletion[]) =>
  [...completions].sort((a, b) => a.index - b.index || a.sample - b.sample);

async function alone(more: Partial<EvalOptions> = {}) {
  const completions: EvalCompletion[] = [];
  const rows = await answerProblems(
    await optionsOf({ onCompletion: (one) => completions.push(one), ...more }),
  );
  return { rows, completions: ordered(completions) };
}

/** A rank's part, with what it was given until it ended. */
async function rankOf(group: ProcessGroup, more: Partial<EvalOptions> = {}, faults: FakeFaults = {}) {
  const completions: EvalCompletion[] = [];
  const onCompletion = (one: EvalCompletion): void => {
    completions.push(one);
    more.onCompletion?.(one);
  };
  const options = await optionsOf({ ...more, onCompletion }, faults);
  const ended = await answerTogether(new Ranks(group), options, EVERY_MS).then(
    (rows) => ({ rows }),
    (error: unknown) => ({ code: errorCode(error) ?? 'none', message: errorMessage(error) }),
  );
  return { ended, completions: ordered(completions) };
}

const together = (size: number, more: (rank: number) => Partial<EvalOptions> = () => ({})) =>
  Promise.all(groupsInProcess(size).map((group) => rankOf(group, more(group.rank))));

test.each<[number, string, Partial<EvalOptions>]>([
  [2, 'greedy answers', { sampling: 'greedy', samples: 1 }],
  [2, 'several samples', { samples: 3 }],
  [3, 'fewer samples than ranks', {}],
  [4, 'more ranks than answers', { n: 3, samples: 1 }],
])('%i ranks give the rows and texts of one: %s', async (size, _, more) => {
  const one = await alone(more);
  for (const { ended, completions } of await together(size, () => more)) {
    expect(ended).toEqual({ rows: one.rows });
    expect(completions).toEqual(one.completions);
  }
});

test('each answer is made once, by the rank whose it is', async () => {
  const asked: number[] = [];
  const counted = async (group: ProcessGroup) => {
    const options = await optionsOf();
    const { model } = options;
    const generate: Model['generate'] = (requests, settings) => {
      asked[group.rank] = requests.reduce((sum, { numSamples = 1 }) => sum + numSamples, 0);
      return model.generate(requests, settings);
    };
    return answerTogether(new Ranks(group), { ...options, model: { ...model, info: model.info, generate } });
  };
  await Promise.all(groupsInProcess(3).map(counted));
  expect(asked).toEqual([8, 8, 8]);
});

test('answers are dealt evenly, a problem of several in neighbours, and what is there is nobody’s', () => {
  const [problems, samples] = [50, 5];
  const isThere = (index: number) => index % 7 === 0;
  const owner = dealtAnswers(3, { problems, samples }, isThere);
  const counts = [0, 0, 0];
  for (let index = 0; index < problems; index++) {
    const owners = Array.from({ length: samples }, (_, sample) => owner(index, sample));
    if (isThere(index)) {
      expect(owners).toEqual([-1, -1, -1, -1, -1]);
      continue;
    }
    owners.forEach((rank) => counts[rank]!++);
    const changes = owners.filter((rank, i) => i > 0 && rank !== owners[i - 1]).length;
    expect(changes).toBeLessThanOrEqual(2);
  }
  expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(2);
});

test('data in an order that repeats does not put the same kind on one rank', () => {
  const owner = dealtAnswers(5, { problems: 500, samples: 1 }, () => false);
  const hardest = [0, 0, 0, 0, 0];
  for (let index = 4; index < 500; index += 5) hardest[owner(index, 0)]!++;
  expect(Math.max(...hardest)).toBeLessThan(35);
});

test('an interrupted evaluation keeps what it has, and only the rest is answered again', async () => {
  const one = await alone();
  const stop = new AbortController();
  let heard = 0;
  // It stops rank 1 in the middle of its share.
  const onCompletion = () => {
    if (++heard === 4) stop.abort();
  };
  const stopped = await together(2, (rank) => (rank === 1 ? { signal: stop.signal, onCompletion } : {}));
  const kept = stopped[0]!.completions;
  expect(kept).toHaveLength(12 + 4);
  const message = `Evaluation stopped after ${kept.length} of 24 answers`;
  expect(stopped.map(({ ended }) => ended)).toEqual([
    { code: 'CANCELLED', message },
    { code: 'CANCELLED', message },
  ]);
  const keys = new Set(kept.map(({ index, sample }) => `${index} ${sample}`));
  const finished = one.rows.filter(({ index, sample }) => keys.has(`${index} ${sample}`));
  // Only rank 0 knows them.
  const resumed = await together(3, (rank) => (rank === 0 ? { finished } : {}));
  for (const { ended, completions } of resumed) {
    expect(ended).toEqual({ rows: one.rows });
    expect(completions).toHaveLength(24 - kept.length);
  }
});

test('a rank hears of answers while others still work', async () => {
  let free: () => void = () => undefined;
  const heard = new Promise<void>((resolve) => (free = resolve));
  // The last of rank 1 is judged when rank 0 has heard of another of its answers.
  let judged = 0;
  const grade: EvalOptions['grade'] = (answer, problem) =>
    ++judged === 12 ? heard.then(() => gradeMath(answer, problem)) : gradeMath(answer, problem);
  let total = 0;
  const onCompletion = () => {
    if (++total > 12) free();
  };
  const one = await alone();
  const two = await together(2, (rank) => (rank === 1 ? { grade } : { onCompletion }));
  for (const { ended } of two) expect(ended).toEqual({ rows: one.rows });
});

test('progress counts the answers and tokens of all ranks', async () => {
  const seen: { done: number; total: number; tokens: number }[] = [];
  const [first] = await together(2, (rank) => (rank === 0 ? { onProgress: (one) => seen.push(one) } : {}));
  const tokens = first!.completions.reduce((sum, { totalTokens }) => sum + totalTokens, 0);
  expect(seen.at(-1)).toMatchObject({ done: 24, total: 24, tokens, sequences: [] });
  expect(seen.every(({ done }, i) => i === 0 || done >= seen[i - 1]!.done)).toBe(true);
});

const never: EvalOptions['grade'] = () => new Promise(() => undefined);

test('an error on one rank is that of all, whose own share ends', async () => {
  const faults: FakeFaults = { nonFinite: (call) => call === 'generate' };
  const [first, second] = await Promise.all(
    groupsInProcess(2).map((group) =>
      rankOf(group, group.rank === 0 ? { grade: never } : {}, group.rank === 1 ? faults : {}),
    ),
  );
  const message = (second!.ended as { message: string }).message;
  expect(second!.ended).toEqual({ code: 'NOT_FINITE', message: expect.stringContaining('not finite') });
  expect(first!.ended).toEqual({
    code: 'NOT_FINITE',
    message: `Rank 1 failed in the evaluation: ${message}`,
  });
});

test('what the caller of one rank throws ends all', async () => {
  const onCompletion = () => {
    throw new AcoerError('WRITE_FAILED', 'The disk is full.');
  };
  const two = await together(2, (rank) => (rank === 0 ? { onCompletion } : { grade: never }));
  expect(two.map(({ ended }) => ended)).toEqual([
    { code: 'WRITE_FAILED', message: 'The disk is full.' },
    { code: 'WRITE_FAILED', message: 'Rank 0 failed in the evaluation: The disk is full.' },
  ]);
});

test('what the caller throws over another rank’s answer ends all', async () => {
  let own = 0;
  // Every rank has 12 of its own.
  const onCompletion = () => {
    if (++own === 13) throw new AcoerError('WRITE_FAILED', 'The disk is full.');
  };
  let judged = 0;
  const grade: EvalOptions['grade'] = (answer, problem) =>
    ++judged > 11 ? never(answer, problem) : gradeMath(answer, problem);
  const two = await together(2, (rank) => (rank === 0 ? { onCompletion } : { grade }));
  expect(two.map(({ ended }) => ended)).toEqual([
    { code: 'WRITE_FAILED', message: 'The disk is full.' },
    { code: 'WRITE_FAILED', message: 'Rank 0 failed in the evaluation: The disk is full.' },
  ]);
});

test('an end with an error, as by a watchdog, is that error on all ranks', async () => {
  const stop = new AbortController();
  const hang = () => {
    setTimeout(() => stop.abort(new AcoerError('HUNG', 'Nothing moves.')), 10);
    return new Promise<never>(() => undefined);
  };
  const two = await together(2, (rank) => (rank === 1 ? { signal: stop.signal, grade: hang } : {}));
  expect(two.map(({ ended }) => ended)).toEqual([
    { code: 'HUNG', message: 'Rank 1 failed in the evaluation: Nothing moves.' },
    { code: 'HUNG', message: 'Nothing moves.' },
  ]);
});

test('a wrong option is refused on every rank', async () => {
  const two = await together(2, () => ({ samples: 0 }));
  for (const { ended } of two)
    expect(ended).toEqual({ code: 'BAD_ARGUMENT', message: 'evaluate needs samples >= 1, not 0' });
});

test('a problem without room for an answer is named on every rank, once', async () => {
  const get = (index: number) =>
    index === 5 ? { ...dataset.get(5), question: 'x'.repeat(5_000) } : dataset.get(index);
  const named: number[][] = [[], []];
  const more = (rank: number): Partial<EvalOptions> => ({
    dataset: { ...dataset, get },
    onNoRoom: ({ index }) => named[rank]!.push(index),
  });
  await together(2, more);
  expect(named).toEqual([[5], [5]]);
});
