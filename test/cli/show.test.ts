/** `acoer show`: which completions are printed, how, and what a hostile one may do. */
import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cutMiddle } from '../../src/cli/view/cut';
import { runTables, writeAnswers, writeCompletions, type CompletionRow } from '../../src/run';
import { questionOf } from '../../src/base/transcript';
import type { Rollout } from '../../src/base/types';
import { acoer, builtCli, ended, objects } from '../helpers/cli';
import { processorMs } from '../../src/base/deadline';

const root = mkdtempSync(join(tmpdir(), 'acoer-show-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const TEMPLATE = 'Solve this:\n\n{problem}\n\nUse a box.';

interface Made {
  problem?: string;
  sample?: number;
  correct?: boolean;
  thinking?: string;
  answer?: string;
  tokens?: number;
}

function rollout(index: number, made: Made): Rollout {
  const { problem = `p${index}`, sample = 0, correct = true } = made;
  const { thinking = 'one two', answer = '\\boxed{2}', tokens = 10 } = made;
  const question = `What is ${problem}?`;
  const text = `<|im_start|>user\n${TEMPLATE.replace('{problem}', question)}<|im_end|>\n<|im_start|>assistant\n`;
  return {
    prompt: {
      problem: { id: problem, question, gold: '2', level: '3' },
      index,
      text,
      ids: new Int32Array(),
      thinkOpened: false,
    },
    sample,
    ids: new Int32Array(),
    logprobs: new Float64Array(),
    entropies: new Float64Array(),
    finish: 'stop',
    text: `<think>\n${thinking}\n</think>\n\n${answer}`,
    thinkingTokens: tokens,
    thinkingClosed: true,
    totalTokens: tokens + 5,
    verdict: { correct, status: correct ? 'correct' : 'incorrect', extracted: correct ? '2' : '7' },
    format: true,
  };
}

const rowOf = (index: number, made: Made): CompletionRow => ({
  rollout: rollout(index, made),
  reward: { total: 1.5, parts: { acoer: 0.5, format: 1 } },
  advantage: -0.25,
});

let runs = 0;
function newRun(settings: object = {}): string {
  const path = join(root, `run-${runs++}`);
  for (const folder of ['completions', 'evaluations']) mkdirSync(join(path, folder), { recursive: true });
  writeFileSync(join(path, 'config.json'), JSON.stringify({ promptTemplate: TEMPLATE, ...settings }));
  return path;
}
const training = (run: string, step: number, made: Made[]) =>
  writeCompletions(
    join(run, 'completions', `step-${String(step).padStart(6, '0')}.parquet`),
    step,
    made.map((one, i) => rowOf(Number(/\d+/.exec(one.problem ?? '')?.[0] ?? i), one)),
  );
const evaluation = (run: string, step: number, kind: string, made: Made[]) =>
  writeAnswers(
    join(run, 'evaluations', `step-${String(step).padStart(6, '0')}-${kind}.parquet`),
    step,
    made.map((one, i) => rollout(i, one)),
  );

const run = newRun();
beforeAll(async () => {
  await training(run, 10, [
    { problem: 'p1', sample: 0, tokens: 30, thinking: 'long of p1' },
    { problem: 'p1', sample: 1, tokens: 20, thinking: 'median of p1' },
    { problem: 'p1', sample: 2, tokens: 10, thinking: 'short of p1' },
    { problem: 'p1', sample: 3, tokens: 40, thinking: 'mistaken', correct: false },
    { problem: 'p2', sample: 0, tokens: 12 },
  ]);
  await training(run, 20, [{ problem: 'p1', tokens: 8, thinking: 'later' }]);
  await evaluation(run, 0, 'greedy', [{ problem: 'p1', tokens: 100, thinking: 'before' }, { problem: 'e2' }]);
  await evaluation(run, 20, 'greedy', [{ problem: 'p1', tokens: 25, thinking: 'after' }, { problem: 'e2' }]);
  // Being written: renamed when whole.
  writeFileSync(join(run, 'completions', 'step-000030.parquet.tmp-1'), 'half');
});

const show = async (...words: string[]) => {
  const result = await acoer('show', ...words);
  // Node may warn of Jest's own options.
  expect(result.stderr.replaceAll(/^\(.*\n/gm, '')).toBe('');
  expect(result.code).toBe(0);
  return result.stdout;
};
const refused = async (...words: string[]) => {
  const { code, stderr, stdout } = await acoer('show', ...words);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  return stderr;
};

test('the tables are found in the order in which they were made', () => {
  expect(runTables(run).map(({ step, kind }) => `${step} ${kind}`)).toEqual([
    '0 greedy',
    '10 training',
    '20 training',
    '20 greedy',
  ]);
});

test('by default the newest table of training', async () => {
  const text = await show(run);
  expect(text).toMatch(/^step 20, training, of .*: 1 problem, 1 completion, 100\.0% correct, 8\.0 thinking/);
  expect(text).toContain('problem p1  level 3  reference 2\n    What is p1?\n');
  expect(text).toContain(
    '  correct  sample 0  8 of 13 tokens are thinking  reward 1.500 = acoer 0.500 + format 1.000  advantage -0.250\n',
  );
  expect(text).toContain('    <think>\n    later\n    </think>\n    \\boxed{2}\n');
});

test('of each problem a correct and a wrong completion, of median length each', async () => {
  const text = await show(run, '--step', '10');
  expect(text).toContain('median of p1');
  expect(text).toContain('wrong, answered 7  sample 3  40 of 45 tokens are thinking');
  expect(text).not.toMatch(/long of p1|short of p1/);
  expect(text.match(/^problem /gm)).toHaveLength(2);
  expect(await show(run, '--step', '10', '-n', '1')).toMatch(/\n1 more; -n 2 prints all\n$/);
  expect(await show(run, '--step', '10', '--wrong')).toMatch(
    /1 problem, 1 completion, 0\.0% correct[^]*mistaken/,
  );
  expect(await show(run, '--step', '10', '--sample', '2')).toContain('short of p1');
});

test('what rewards noted is beside the reward', async () => {
  const noted = newRun();
  const row = rowOf(0, {});
  const columns = { overlap: 0.123456789, note: 'two\nlines', absent: null, fits: true };
  const rows = [{ ...row, reward: { ...row.reward, columns } }];
  await writeCompletions(join(noted, 'completions', 'step-000010.parquet'), 10, rows);
  expect((await show(noted)).replaceAll(/\s+/g, ' ')).toContain(
    'advantage -0.250 overlap 0.123457 note two\\nlines fits true',
  );
  expect(objects(await show(noted, '--json'))).toMatchObject([{ columns }]);
});

test('a problem over all steps, before and after first', async () => {
  const text = await show(run, '--problem', 'p1');
  expect(text).toMatch(
    /base model, greedy +1 of 1 +100\.0\n +step 10, training +3 of 4 +25\.0\n +step 20, training +1 of 1 +8\.0\n +step 20, greedy +1 of 1 +25\.0\n/,
  );
  expect(text).toContain('training: thinking 25.0 -> 8.0 tokens  -68%');
  expect(text).toContain('greedy: thinking 100.0 -> 25.0 tokens  -75%');
  const order = ['before', 'median of p1', 'later', 'after'].map((word) => text.indexOf(`    ${word}\n`));
  expect(order.every((place) => place > 0)).toBe(true);
  expect(order).toEqual([...order].sort((a, b) => a - b));
  const one = await show(run, '--problem', 'p1', '--step', '10');
  for (const word of ['long of p1', 'median of p1', 'short of p1', 'mistaken']) expect(one).toContain(word);
});

test('answers of evaluations', async () => {
  const text = await show(run, '--evaluation');
  expect(text).toMatch(/^step 20, greedy, of [^]*after/);
  expect(text).not.toContain('reward');
  expect(await show(run, '--evaluation', '--step', '0')).toMatch(/^base model, greedy, of [^]*before/);
});

test('JSON Lines have every matching completion whole', async () => {
  const rows = objects<Record<string, unknown>>(await show(run, '--step', '10', '--json'));
  expect(rows).toHaveLength(5);
  expect(rows[3]).toMatchObject({
    table: 'training',
    step: 10,
    problemId: 'p1',
    sample: 3,
    correct: false,
    status: 'incorrect',
    scored: { total: 1.5, parts: { acoer: 0.5, format: 1 }, advantage: -0.25 },
  });
  expect(objects(await show(run, '--problem', 'p1', '--json', '-n', '2'))).toHaveLength(2);
});

test.each<[string, string[], RegExp]>([
  [
    'a step without a table',
    ['--step', '12'],
    /has no completions of step 12; the nearest are 10 and 20\.\n$/,
  ],
  ['a step after the last', ['--step', '99'], /step 99; the nearest is 20\.\n$/],
  [
    'an evaluation that was not made',
    ['--step', '10', '--evaluation'],
    /no answers of evaluations of step 10; the nearest are 0 and 20/,
  ],
  ['an unknown problem', ['--problem', 'p9'], /Problem p9 is not in the tables of .*; did you mean `p1`\?/],
  ['both verdicts', ['--correct', '--wrong'], /cannot be used with/],
])('%s exits with 2 and a sentence', async (_, words, sentence) => {
  expect(await refused(run, ...words)).toMatch(sentence);
});

test('a run without tables says what to do', async () => {
  expect(await refused(newRun({ completionsSteps: 0 }))).toMatch(
    /keeps no completions, .* --set completionsSteps=10\.\n$/,
  );
  expect(await refused(newRun({ completionsSteps: 7 }))).toMatch(
    /no completions yet: a table is written every 7 steps/,
  );
  expect(await refused(root)).toMatch(/is not a run: it has no config\.json/);
});

test('long thinking is cut in the middle, unless --full; the answer never is', async () => {
  const path = newRun();
  const words = Array.from({ length: 5000 }, (_, i) => `word${i}`).join(' ');
  const answer = Array.from({ length: 100 }, (_, i) => `line ${i}`).join('\n');
  await training(path, 10, [{ thinking: words, answer, tokens: 6000 }]);
  const text = await show(path);
  const [, cut] = /\.\.\. about ([\d,]+) tokens cut \.\.\./.exec(text)!;
  expect(Number(cut!.replace(',', ''))).toBeGreaterThan(5000);
  expect(text).toMatch(/word0 word1 [^]* word4999\n {4}<\/think>/);
  expect(text).toContain('line 50\n');
  const full = await show(path, '--full');
  expect(full).toContain(words);
  expect(full).not.toContain('tokens cut');
});

test('a hostile completion stays text, in text and in JSON', async () => {
  const path = newRun();
  const hostile = `\x1b[2J\x1b]0;owned\x07\u009b31m\u202e <script>\ud800 ${'z'.repeat(1_000_000)}`;
  await training(path, 10, [
    { problem: `p\x1b[1m`, thinking: hostile, answer: hostile, correct: false },
    { problem: 'p2', answer: `${hostile}\r\n` },
  ]);
  const begun = processorMs();
  for (const words of [[], ['--full'], ['--json'], ['--problem', 'p2']]) {
    const text = await show(path, ...words);
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}]/u);
    expect(text).toContain('z'.repeat(1_000_000));
  }
  expect(processorMs() - begun).toBeLessThan(20_000);
});

test('a damaged table is one sentence', async () => {
  const path = newRun();
  writeFileSync(join(path, 'completions', 'step-000010.parquet'), 'PAR1 nothing PAR1');
  expect(await refused(path)).toMatch(/^acoer: Cannot read .*step-000010\.parquet as Parquet: /);
});

test('a reader that leaves early is no error', async () => {
  const path = join(root, 'many');
  cpSync(newRun(), path, { recursive: true });
  await training(
    path,
    10,
    Array.from({ length: 64 }, (_, i) => ({ problem: `p${i}`, thinking: 'x '.repeat(50_000) })),
  );
  const child = spawn('bash', [
    '-o',
    'pipefail',
    '-c',
    `"$0" "$1" show "$2" --full -n 64 | head -3`,
    process.execPath,
    builtCli(),
    path,
  ]);
  const { code, stdout, stderr } = await ended(child);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.split('\n')).toHaveLength(4);
});

test('the help fits 80 columns', async () => {
  const { stdout } = await acoer('show', '--help');
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
});

describe('the question within a prompt', () => {
  test.each([
    [
      '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSolve this:\n\nQ?\n\nUse a box.<|im_end|>\n<|im_start|>assistant\n',
      TEMPLATE,
      'Q?',
    ],
    ['<|im_start|>user\n1+1 mod 10?<|im_end|>\n<|im_start|>assistant\n<think>\n', '{problem}', '1+1 mod 10?'],
    ['<｜User｜>Solve: a|b {problem} ?<｜Assistant｜><think>\n', 'Solve: {problem}', 'a|b {problem} ?'],
    ['<|start_header_id|>user<|end_header_id|>\n\nSolve: x<|eot_id|>', 'Solve: {problem}', 'x'],
    ['a template nobody knows', 'Solve: {problem}', 'a template nobody knows'],
  ])('%j', (prompt, template, question) => {
    expect(questionOf(prompt, template)).toBe(question);
  });
});

describe('cutting in the middle', () => {
  const keep = { characters: 20, lines: 2 };
  test('short texts are whole', () => {
    expect(cutMiddle('a'.repeat(50), keep)).toBeNull();
    expect(cutMiddle('1\n2\n3\n4\n5', keep)).toBeNull();
  });
  test('head, tail and what is left out add up', () => {
    for (const text of [
      'a'.repeat(500),
      'ab cd '.repeat(200),
      '1\n2\n3\n4\n5\n6',
      '\n'.repeat(99),
      'x\n'.repeat(99),
    ]) {
      const { head, tail, leftOut } = cutMiddle(text, keep)!;
      expect(head.length).toBeLessThanOrEqual(20);
      expect(tail.length).toBeLessThanOrEqual(20);
      expect(text.startsWith(head)).toBe(true);
      expect(text.endsWith(tail)).toBe(true);
      expect(leftOut).toBeGreaterThan(0);
      expect(head.split('\n').length).toBeLessThanOrEqual(2);
    }
  });
  test('characters of two halves are not split', () => {
    const { head, tail } = cutMiddle('🙂'.repeat(300), { characters: 21, lines: 2 })!;
    expect(`${head}${tail}`).not.toMatch(/\p{Cs}/u);
  });
});
