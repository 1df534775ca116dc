/**
 * Files of completions by other programs. Rows have the shapes those programs write; the texts are our own.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gradeFile, type GradeFileOptions, type Grader } from '../../src/eval';
import { verifyAnswer, verifyCompletion } from '../../packages/verify/src';
import { fakeDataset, fakeTokenizer } from '../helpers/fake-tokenizer';

const root = mkdtempSync(join(tmpdir(), 'acoer-grade-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const grader: Grader = {
  concurrency: 2,
  verify: async (items) =>
    items.map(({ gold, pred, preset, grading }) =>
      preset === 'boxed' || preset === 'last-box'
        ? verifyCompletion(pred, gold, preset === 'boxed' ? 'answer' : preset, grading)
        : verifyAnswer(gold, pred, { preset }),
    ),
};

let files = 0;
function fileOf(rows: readonly object[], name = 'rows.jsonl'): string {
  const path = join(root, `${files++}-${name}`);
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return path;
}

const grade = (rows: readonly object[], options: Partial<GradeFileOptions> = {}) =>
  gradeFile(fileOf(rows), { grader, ...options });

const brief = (rows: Awaited<ReturnType<typeof grade>>) =>
  rows.map(({ index, sample, verdict, truncated }) => [index, sample, verdict.correct, truncated]);

test.each(['completion', 'response', 'text', 'output', 'prediction', 'generated_text'])(
  'plain columns: %s next to an answer',
  async (name) => {
    const rows = await grade([
      { answer: 7, [name]: 'so \\boxed{7}' },
      { answer: '1/2', [name]: '\\boxed{0.5}' },
      { answer: '3', [name]: '\\boxed{4}' },
    ]);
    expect(rows.map((row) => row.verdict.correct)).toEqual([true, true, false]);
    expect(rows.map((row) => row.index)).toEqual([0, 1, 2]);
    expect(rows[0]!.totalTokens).toBeNaN();
  },
);

test('several rows of one problem are its samples, and so are the texts in a list', async () => {
  const rows = await grade([
    { id: 'a', gold: '1', level: 3, completion: '\\boxed{1}' },
    { id: 'b', gold: '2', completion: ['\\boxed{2}', '\\boxed{3}'], finish_reason: 'length' },
    { id: 'a', gold: '1', level: 3, completion: '\\boxed{5}' },
  ]);
  expect(brief(rows)).toEqual([
    [0, 0, true, null],
    [1, 0, true, true],
    [1, 1, false, true],
    [0, 1, false, null],
  ]);
  expect(rows[0]!.level).toBe('3');
});

test('vLLM’s outputs: texts, token ids and why each ended', async () => {
  const outputs = [
    { index: 0, text: '\\boxed{8}', token_ids: [5, 6, 7], finish_reason: 'stop' },
    { index: 1, text: 'and on', token_ids: [5, 6], finish_reason: 'length' },
  ];
  const rows = await grade([{ request_id: '0', prompt: 'what?', answer: '8', outputs }]);
  expect(brief(rows)).toEqual([
    [0, 0, true, false],
    [0, 1, false, true],
  ]);
  expect(rows.map((row) => row.totalTokens)).toEqual([3, 2]);
});

test('answers from vLLM’s batches: references from the benchmark, reasoning put back', async () => {
  const line = (id: string, content: string, more: object = {}) => ({
    id: `vllm-${id}`,
    custom_id: id,
    response: {
      status_code: 200,
      body: {
        choices: [{ index: 0, message: { role: 'assistant', content, ...more }, finish_reason: 'stop' }],
        usage: { completion_tokens: 40, completion_tokens_details: { reasoning_tokens: 30 } },
      },
    },
    error: null,
  });
  // By id, in any order; the reasoning contains a wrong box that is not the answer.
  const rows = await grade(
    [line('3', '\\boxed{3}', { reasoning_content: '\\boxed{9}' }), line('1', '\\boxed{2}')],
    {
      dataset: fakeDataset(5),
    },
  );
  expect(rows).toMatchObject([
    { problemId: '3', gold: '3', level: '2', totalTokens: 40, thinkingTokens: 30, thinkingClosed: true },
    { problemId: '1', gold: '1', verdict: { correct: false } },
  ]);
  expect(rows[0]!.verdict.correct).toBe(true);
});

test('without ids the benchmark’s references are matched by position', async () => {
  const rows = await grade(
    [1, 2].map((n) => ({ choices: [{ text: `\\boxed{${n - 1}}`, finish_reason: 'stop' }] })),
    { dataset: fakeDataset(5) },
  );
  expect(rows.map((row) => row.verdict.correct)).toEqual([true, true]);
});

test('lm-evaluation-harness samples: target or the document’s answer, every repeat', async () => {
  const rows = await grade([
    {
      doc_id: 0,
      doc: { problem: 'p', answer: '4', level: 'Level 2' },
      target: '4',
      resps: [['\\boxed{4}']],
      filtered_resps: ['4'],
      exact_match: 0,
    },
    {
      doc_id: 1,
      doc: { question: 'q' },
      target: 'five and three\n#### 1,008',
      resps: [['\\boxed{1008}', '\\boxed{8}']],
    },
  ]);
  expect(rows.map((row) => [row.index, row.sample, row.gold, row.verdict.correct])).toEqual([
    [0, 0, '4', true],
    [1, 0, '1008', true],
    [1, 1, '1008', false],
  ]);
});

test('a tokenizer counts lengths the file lacks, also inside a thinking block opened by the prompt', async () => {
  const rows = await grade([{ gold: '1', completion: 'ab</think>\\boxed{1}' }], {
    tokenizer: { ...fakeTokenizer, encode: () => Int32Array.from([20, 21, 3, 4, 5, 11, 6]) },
  });
  expect(rows[0]).toMatchObject({ totalTokens: 8, thinkingTokens: 2, thinkingClosed: true });
});

test('answers outside a box count on request', async () => {
  const row = { gold: '12', completion: 'The final answer is 12.' };
  expect((await grade([row]))[0]!.verdict.correct).toBe(false);
  expect((await grade([row], { preset: 'math-verify' }))[0]!.verdict.correct).toBe(true);
});

test('the order of rows does not depend on the order in which batches are graded', async () => {
  let call = 0;
  const slow: Grader = {
    concurrency: 3,
    verify: async (items) => {
      await new Promise((resolve) => setTimeout(resolve, 20 - 5 * (call++ % 4)));
      return grader.verify(items);
    },
  };
  const many = Array.from({ length: 1000 }, (_, i) => ({ gold: String(i), completion: `\\boxed{${i}}` }));
  const rows = await grade(many, { grader: slow });
  expect(rows.map((row) => row.gold)).toEqual(many.map((row) => row.gold));
  expect(rows.every((row) => row.verdict.correct)).toBe(true);
});

test.each<[string, object[], RegExp]>([
  [
    'no completion',
    [{ gold: '1', reply: 'x' }],
    /line 1: no completion found: looked for completion, .*its columns are gold, reply/,
  ],
  [
    'no reference',
    [{ completion: 'x', solved: true }],
    /line 1: no reference answer found: looked for gold, .*--benchmark/,
  ],
  [
    'a failed request',
    [{ custom_id: '1', response: null, error: { message: 'too long' } }],
    /line 1: the request failed \(too long\)/,
  ],
  ['nothing', [], /contains no completions/],
])('%s is rejected in one sentence', async (_, rows, message) => {
  await expect(grade(rows)).rejects.toThrow(message);
  await expect(grade(rows)).rejects.toMatchObject({ code: 'BAD_INPUT' });
});

test('more problems than the benchmark has are rejected', async () => {
  const rows = Array.from({ length: 3 }, () => ({ text: 'x' }));
  await expect(grade(rows, { dataset: fakeDataset(2) })).rejects.toThrow(/line 3: fake has 2 problems/);
});

test('the benchmark’s own grading rules are applied', async () => {
  const problems = [
    { id: 'a', question: 'q', gold: '4.2', level: null, grading: { tolerance: 0.1, countRepeats: true } },
    { id: 'b', question: 'r', gold: '16,3,1,1', level: null, grading: { countRepeats: true } },
    { id: 'c', question: 's', gold: '16,3,1,1', level: null },
  ];
  const dataset = { name: 'bench', size: problems.length, get: (index: number) => problems[index]! };
  const rows = await grade(
    [
      { id: 'a', completion: '\\boxed{4.1}' },
      { id: 'a', completion: '\\boxed{4.0}' },
      { id: 'b', completion: '\\boxed{16,3,1}' },
      { id: 'c', completion: '\\boxed{16,3,1}' },
    ],
    { dataset },
  );
  expect(rows.map(({ verdict }) => verdict.correct)).toEqual([true, false, false, true]);
  expect(Object.keys(rows[0]!)).not.toContain('grading');
});
