/** What each judge takes for a right answer, and what it does with hostile text. */
import {
  builtInJudge,
  formatRuleOf,
  gradeBuiltIn,
  gradeUser,
  judgeOf,
  type JudgeFunction,
} from '../../src/judges';
import { BOXED } from '../../src/judges/format';
import type { Problem, Verdict } from '../../src/base/types';

const problem = (gold: string | null, row?: Problem['row']): Problem => ({
  id: '7',
  question: 'q',
  gold,
  level: null,
  ...(row && { row }),
});

const completion = (text: string, thinkOpened = false) => ({
  text,
  thinkOpened,
  thinkingTokens: 1,
  thinkingClosed: text.includes('</think>'),
});

function judged(judge: string, judgeParams: object, gold: string | null, text: string, thinkOpened = false) {
  const bound = builtInJudge({ judge, judgeParams: judgeParams as Record<string, unknown> });
  const { status, extracted } = bound.verdict(completion(text, thinkOpened), problem(gold)) as Verdict;
  return [status, extracted];
}

test.each([
  ['positive', 'positive', 'correct', 'positive'],
  ['positive', '<think>\nnegative?</think>\n\n positive \n', 'correct', 'positive'],
  ['positive', '</think>It is \\boxed{positive}.', 'correct', 'positive'],
  ['positive', 'first <answer>no</answer>, then <answer> positive </answer>.', 'correct', 'positive'],
  ['positive', 'Positive', 'incorrect', 'Positive'],
  ['positive', 'it is positive', 'incorrect', 'it is positive'],
  ['caf\u00e9', 'cafe\u0301', 'correct', 'cafe\u0301'],
  ['positive', '<think> positive', 'unparseable', null],
  ['positive', '</think>  ', 'unparseable', null],
  [' ', 'positive', 'gold-unparseable', null],
  [null, 'positive', 'gold-unparseable', null],
])('exact: %j and %j: %s', (gold, text, status, extracted) => {
  expect(judged('exact', {}, gold, text)).toEqual([status, extracted]);
});

test('exact: ignoreCase; thinking opened by the template and never closed is no answer', () => {
  expect(judged('exact', { ignoreCase: true }, 'positive', 'POSITIVE')).toEqual(['correct', 'POSITIVE']);
  expect(judged('exact', {}, 'positive', 'positive', true)).toEqual(['unparseable', null]);
});

test.each([
  ['B', 'B', 'correct', 'B'],
  ['b', '(B)', 'correct', 'B'],
  ['(B)', '**B**', 'correct', 'B'],
  ['B. Paris', 'B. Paris', 'correct', 'B'],
  ['B', '</think>The answer is (B).', 'correct', 'B'],
  ['B', 'Answer: B', 'correct', 'B'],
  ['B', 'The correct option is **B**, because A is not.', 'correct', 'B'],
  ['B', 'Option A is wrong.\nB', 'correct', 'B'],
  ['B', 'Let us see: \\boxed{\\text{B}}', 'correct', 'B'],
  ['B', '\\boxed{(B) Paris}', 'correct', 'B'],
  ['B', 'the answer is A, no: the answer is B.', 'correct', 'B'],
  ['C', 'The answer is B', 'incorrect', 'B'],
  ['B', 'The answer is A good one', 'unparseable', null],
  ['B', 'A dog ate it', 'unparseable', null],
  ['B', '<think>B', 'unparseable', null],
  ['17', 'B', 'gold-unparseable', null],
  [null, 'B', 'gold-unparseable', null],
])('choice: %j and %j: %s', (gold, text, status, extracted) => {
  expect(judged('choice', {}, gold, text)).toEqual([status, extracted]);
});

test('choice: only the given letters count', () => {
  expect(judged('choice', { letters: 'ABCD' }, 'A', 'E')).toEqual(['unparseable', null]);
  expect(judged('choice', { letters: 'ABCD' }, 'E', 'E')).toEqual(['gold-unparseable', null]);
});

test.each([
  [{ pattern: '####\\s*(\\S+)' }, '42', 'so\n#### 41\n#### 42', 'correct', '42'],
  [{ pattern: '####\\s*(\\S+)' }, '42', '#### 42.0', 'incorrect', '42.0'],
  [{ pattern: '####\\s*(\\S+)', compare: 'math' }, '42', '#### 42.0', 'correct', '42.0'],
  [{ pattern: '####\\s*(\\S+)' }, null, '#### 41', 'correct', '41'],
  [{ pattern: '####\\s*(\\S+)' }, '42', '<think>#### 42', 'unparseable', null],
  [{ pattern: '^\\{.*\\}$' }, '42', '{\n"a": 1}', 'correct', '{\n"a": 1}'],
  [{ pattern: 'yes' }, 'no', 'YES', 'unparseable', null],
  [{ pattern: '(yes|no)', ignoreCase: true }, 'no', 'NO', 'correct', 'NO'],
  [{ pattern: 'a(b)?' }, 'b', 'a', 'unparseable', null],
])('regex: %j, %j and %j: %s', (params, gold, text, status, extracted) => {
  expect(judged('regex', params, gold, text)).toEqual([status, extracted]);
});

test.each<[string, object, RegExp]>([
  ['mth', {}, /judge: there is no judge "mth"; did you mean `math`\?/],
  ['unlike', {}, /judge: there is no judge "unlike"; choose one of math, exact, choice, regex, or a JavaScript file/],
  ['regex', {}, /judgeParams\.pattern: must be/],
  ['regex', { pattern: '(' }, /judgeParams\.pattern: must be a regular expression of JavaScript \(.*Unterminated group\)/],
  ['exact', { ignorCase: true }, /judgeParams\.ignorCase: unknown setting; did you mean `ignoreCase`\?/],
  ['choice', { letters: 'abc' }, /judgeParams\.letters: must be two or more capital letters/],
  ['math', { pattern: 'x' }, /judgeParams\.pattern: unknown setting/],
])('%s with %j is refused', (judge, judgeParams, message) => {
  expect(() => builtInJudge({ judge, judgeParams: judgeParams as never })).toThrow(message);
}); // prettier-ignore

const HOSTILE = [
  'answer' + ' '.repeat(500_000),
  '<answer>'.repeat(100_000),
  '\\text{'.repeat(100_000),
  '\\boxed{'.repeat(100_000),
  'Answer: '.repeat(100_000),
  '\n'.repeat(500_000),
];

test.each(['exact', 'choice'])('%s takes linear time on hostile text', (judge) => {
  const grade = gradeBuiltIn(builtInJudge({ judge, judgeParams: {} }), BOXED, 1000);
  const statuses = HOSTILE.map((text) => (grade(completion(text), problem('A')) as { verdict: Verdict }).verdict.status);
  expect(statuses).not.toContain('timeout');
}); // prettier-ignore

test('a runaway pattern gets the verdict timeout', () => {
  const judge = builtInJudge({ judge: 'regex', judgeParams: { pattern: '^(a+)+$' } });
  const grade = gradeBuiltIn(judge, BOXED, 50);
  expect(grade(completion(`${'a'.repeat(60)}b`), problem(null))).toEqual({
    verdict: { correct: false, status: 'timeout', extracted: null },
    format: false,
  });
});

test('format rules', () => {
  const boxed = '<think>x</think>\\boxed{1}';
  const holds = (formatRule: 'boxed' | 'thinking' | 'regex' | null, judge: string, text: string) =>
    formatRuleOf({ formatRule, formatPattern: '</think>\\s*<answer>.*</answer>\\s*$' }, judge).holds(
      completion(text),
    );
  expect(holds(null, 'math', boxed)).toBe(true);
  expect(holds(null, 'math', '<think>x</think>1')).toBe(false);
  expect(holds(null, 'exact', '<think>x</think>1')).toBe(true);
  expect(holds('boxed', 'exact', '<think>x</think>1')).toBe(false);
  expect(holds('thinking', 'math', '<think>x</think>1')).toBe(true);
  expect(holds('regex', 'math', '<think>x</think>\n<answer>\n1\n</answer>')).toBe(true);
  expect(holds('regex', 'math', boxed)).toBe(false);
});

describe('a function of the user', () => {
  const grade = (judge: JudgeFunction, of = problem(null, { city: 'Paris' }), text = '<think>Oslo</think> Paris') =>
    gradeUser(judgeOf('mine', judge, { tries: 2 }), BOXED, 200)(completion(text), of); // prettier-ignore

  test('sees the answer, the row and the parameters, and returns a verdict', async () => {
    const seen: unknown[] = [];
    const judge: JudgeFunction = (...given) => {
      seen.push(given);
      return { correct: true, extracted: 'Paris' };
    };
    const row = { city: 'Paris', visits: 3 };
    expect((await grade(judge, problem(null, row))).verdict).toEqual({ correct: true, status: 'correct', extracted: 'Paris' }); // prettier-ignore
    const of = {
      text: '<think>Oslo</think> Paris',
      answer: ' Paris',
      thinkingTokens: 1,
      thinkingClosed: true,
    };
    expect(seen).toEqual([[of, problem(null, row), { tries: 2 }]]);
  });

  test('may be async, and cannot change the row', async () => {
    const of = problem(null, { list: [1] });
    const judge: JudgeFunction = async (_, { row }) => {
      (row['list'] as number[]).push(2);
      return false;
    };
    expect((await grade(judge, of)).verdict.status).toBe('incorrect');
    expect(of.row).toEqual({ list: [1] });
  });

  test.each<[string, JudgeFunction, string]>([
    ['throws', () => { throw new Error('no luck'); }, 'no luck'],
    ['rejects', () => Promise.reject(new Error('no luck')), 'no luck'],
    ['returns a number', () => 1 as never, 'it returned 1, not true, false or { correct, extracted }'],
    ['returns nothing', () => undefined as never, 'it returned nothing, not true, false or { correct, extracted }'],
    ['never ends', () => { for (;;); }, 'no answer within 200 ms'],
    ['never answers', () => new Promise(() => undefined), 'no answer within 200 ms'],
  ])('that %s fails, naming the problem', async (_, judge, why) => {
    await expect(grade(judge)).rejects.toMatchObject({
      code: 'JUDGE_FAILED',
      message: `The judge mine failed on a completion of problem 7: ${why}`,
    });
  }); // prettier-ignore
});
