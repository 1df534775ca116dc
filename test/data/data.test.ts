import { ColumnMap } from '../../src/data/columns';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadDataset } from '../../src/data';

const tiny = (split: 'train' | 'eval', seed = 1, name = 'tiny') => loadDataset({ name, split, seed });

/** The chain's value, computed from its characters without the task's code. */
function valueOf(question: string): number {
  const [chain] = question.split(' ');
  let value = 0;
  let sign = 1;
  for (const character of chain!) {
    if (character === '+') sign = 1;
    else if (character === '-') sign = -1;
    else value += sign * Number(character);
  }
  return ((value % 10) + 10) % 10;
}

test.each([
  { name: 'tiny', levels: 5, split: 'train' },
  { name: 'tiny', levels: 5, split: 'eval' },
  { name: 'tiny-hard', levels: 8, split: 'train' },
  { name: 'tiny-hard', levels: 8, split: 'eval' },
] as const)(
  '$name $split: the form of the questions, their answers and levels',
  async ({ name, levels, split }) => {
    const dataset = await tiny(split, 1, name);
    for (let i = 0; i < 500; i++) {
      const { question, gold, level } = dataset.get(i);
      expect(question).toMatch(/^\d([+-][1-9])+ mod 10\?$/);
      expect(question.match(/[+-]/g)).toHaveLength(2 * Number(level));
      expect(level).toBe(String(1 + (i % levels)));
      expect(gold).toBe(String(valueOf(question)));
      if (split === 'train') expect(question.length).toBeLessThanOrEqual(dataset.longestQuestion!);
    }
  },
);

test('rows do not depend on which were read before', async () => {
  const [forward, backward] = [await tiny('train'), await tiny('train')];
  const indices = Array.from({ length: 50 }, (_, i) => i * 37);
  const rows = indices.map((i) => forward.get(i));
  expect([...indices].reverse().map((i) => backward.get(i))).toEqual(rows.reverse());
});

test('the training stream depends on the seed; held-out problems do not', async () => {
  expect((await tiny('train', 1)).get(4)).not.toEqual((await tiny('train', 2)).get(4));
  expect((await tiny('eval', 1)).get(4)).toEqual((await tiny('eval', 2)).get(4));
});

test.each(['tiny', 'tiny-hard'])('%s: held-out problems are distinct and never trained on', async (name) => {
  const held = await tiny('eval', 1, name);
  const questions = new Set(Array.from({ length: held.size }, (_, i) => held.get(i).question));
  expect(questions.size).toBe(held.size);
  for (const seed of [1, 2]) {
    const train = await tiny('train', seed, name);
    for (let i = 0; i < 1000; i++) expect(questions.has(train.get(i).question)).toBe(false);
  }
});

test('a row outside the dataset is an error', async () => {
  const dataset = await tiny('eval');
  for (const index of [-1, dataset.size, 0.5]) {
    expect(() => dataset.get(index)).toThrow(expect.objectContaining({ code: 'BAD_ARGUMENT' }));
  }
});

test('an unknown name gives the known ones', async () => {
  await expect(loadDataset({ name: 'tyni', split: 'train', seed: 1 })).rejects.toMatchObject({
    code: 'BAD_CONFIG',
    message: expect.stringContaining('did you mean `tiny`?'),
  });
});

describe('JSON Lines', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'acoer-data-'));
  });
  afterAll(() => rm(directory, { recursive: true }));

  const load = async (text: string) => {
    const name = join(directory, 'problems.jsonl');
    await writeFile(name, text);
    return loadDataset({ name, split: 'train', seed: 1 });
  };

  test('reads the usual column names, numbers and blank lines', async () => {
    const dataset = await load(
      '{"question":"a","answer":"1"}\n\n{"problem":"b","gold":2,"level":3}\r\n{"prompt":"c","answer":"x","id":"k"}',
    );
    expect([0, 1, 2].map((i) => dataset.get(i))).toEqual([
      { id: '0', question: 'a', gold: '1', level: null, row: { question: 'a', answer: '1' } },
      { id: '1', question: 'b', gold: '2', level: '3', row: { problem: 'b', gold: 2, level: 3 } },
      { id: 'k', question: 'c', gold: 'x', level: null, row: { prompt: 'c', answer: 'x', id: 'k' } },
    ]);
    expect(dataset.size).toBe(3);
  });

  test.each([
    ['{"question":"a","answer":"1"}\n{"question":', /line 2 is not valid JSON/],
    [
      '{"question":"a"}',
      /line 1 has no value for the answer or solution .*its columns are question\. Set the right one/,
    ],
    ['{"answer":"a"}', /line 1 has no value for the problem .*its columns are answer\. Set the right one/],
    [
      '{"question":["a"],"answer":"1"}',
      /line 1 has something else than \{role, content\} as message 1 of question/,
    ],
    ['[1]', /line 1 must be a JSON object/],
    ['\n', /has no problems/],
  ])('%j is rejected', async (text, message) => {
    await expect(load(text)).rejects.toMatchObject({
      code: 'BAD_INPUT',
      message: expect.stringMatching(message),
    });
  });

  test('a missing file is named', async () => {
    await expect(loadDataset({ name: 'nowhere.jsonl', split: 'train', seed: 1 })).rejects.toMatchObject({
      code: 'BAD_INPUT',
      message: expect.stringContaining(`nowhere.jsonl: no such file (looked for in ${process.cwd()})`),
    });
  });
});

test('the tolerance of a row is read if the data set has a column for it', () => {
  const columns = new ColumnMap(
    { problem: 'question', answer: 'final_answer' },
    { tolerance: 'error', countRepeats: true },
  );
  const grading = (error?: unknown) =>
    columns.toProblem({ question: 'q', final_answer: ['4.2'], ...(error !== undefined && { error }) })
      .grading;
  expect(grading('1e-1')).toEqual({ tolerance: 0.1, countRepeats: true });
  expect(grading(0.5)).toEqual({ tolerance: 0.5, countRepeats: true });
  for (const none of [undefined, null, '', 'some', '-1', '0'])
    expect(grading(none)).toEqual({ countRepeats: true });
  expect(columns.choose('f', ['question', 'final_answer', 'error'])).toContain('error');
  expect(columns.choose('f', ['question', 'final_answer'])).not.toContain('error');
});
