import { hasFormat, verifyCompletion } from '../../src/verify';
import { answerRegion, lastBoxed } from '../../src/verify/boxed';

describe('lastBoxed', () => {
  test.each([
    ['\\boxed{7}', '7'],
    ['\\boxed{1} then \\boxed{2}', '2'],
    ['\\boxed{\\frac{1}{2}}', '\\frac{1}{2}'],
    ['\\boxed{\\{1, 2\\}}', '\\{1, 2\\}'],
    ['\\boxed {3}', '3'],
    ['\\fbox{x}', 'x'],
    ['\\boxed{ 5 }', '5'],
    ['\\boxed{4} and \\boxed{5', '4'],
    ['\\boxed{}', ''],
    ['no box', null],
    ['\\boxed{{{', null],
    ['\\boxed{\\boxed{1}', '1'],
    ['} \\boxed{2}', '2'],
    ['\\\\boxed{3}', '3'],
  ])('%s -> %s', (text, expected) => expect(lastBoxed(text)).toBe(expected));
});

test('the answer stands after closed thinking, or anywhere when thinking was not closed', () => {
  expect(answerRegion('<think>a</think>b')).toBe('b');
  expect(answerRegion('<think>a \\boxed{1}')).toBe('<think>a \\boxed{1}');
  expect(verifyCompletion('<think>\\boxed{1}</think>\\boxed{2}', '2').status).toBe('correct');
  expect(verifyCompletion('<think>\\boxed{2}</think>so it is', '2').status).toBe('unparseable');
  expect(verifyCompletion('<think>\\boxed{2}', '2').status).toBe('correct');
});

test.each([
  ['7', '7', 'correct'],
  ['7', '8', 'incorrect'],
  ['1/2', '\\frac{1}{2}', 'correct'],
  ['1/2', '\\dfrac12', 'correct'],
  ['0.5', '\\frac12', 'correct'],
  ['0.5', '.50', 'correct'],
  ['-1/2', '-\\frac{1}{2}', 'correct'],
  ['\\frac{-1}{2}', '-0.5', 'correct'],
  ['1/3', '0.333333', 'incorrect'],
  ['1,234', '1234', 'correct'],
  ['12,34', '1234', 'incorrect'],
  ['5', '5.', 'correct'],
  ['5', '$5$', 'correct'],
  ['5', '+5', 'correct'],
  ['5', '\u22125', 'incorrect'],
  ['-5', '\u22125', 'correct'],
  ['(1, 2)', '\\left(1,2\\right)', 'correct'],
  ['x', 'y', 'incorrect'],
  ['1/0', '2/0', 'incorrect'],
  ['\\boxed{3}', '3', 'correct'],
  ['0', '-0', 'correct'],
])('gold %s, answer %s: %s', (gold, answer, status) => {
  const verdict = verifyCompletion(`<think>\n</think>\n\n\\boxed{${answer}}`, gold);
  expect(verdict).toEqual({ correct: status === 'correct', status, extracted: answer });
});

test('an empty box and an empty reference have statuses of their own', () => {
  expect(verifyCompletion('\\boxed{}', '1').status).toBe('unparseable');
  expect(verifyCompletion('nothing', '1')).toEqual({
    correct: false,
    status: 'unparseable',
    extracted: null,
  });
  expect(verifyCompletion('\\boxed{1}', ' ').status).toBe('gold-unparseable');
});

test('hostile input gives a verdict, quickly', () => {
  const hostile = [
    '\\boxed{'.repeat(2000),
    '{'.repeat(100_000),
    `\\boxed{${'9'.repeat(100_000)}}`,
    `\\boxed{${'1,'.repeat(20_000)}}`,
    `\\boxed{${'\\frac{1}'.repeat(5_000)}}`,
    `\\boxed{${' '.repeat(50_000)}1}`,
    '\\boxed{\ud800}',
  ];
  const startMs = performance.now();
  for (const text of hostile) {
    expect(typeof verifyCompletion(text, '1').status).toBe('string');
    expect(typeof verifyCompletion('\\boxed{1}', text).status).toBe('string');
  }
  expect(performance.now() - startMs).toBeLessThan(2000);
});

test('format needs closed thinking and a complete box', () => {
  expect(hasFormat('<think></think>\\boxed{1}', { thinkingClosed: true })).toBe(true);
  expect(hasFormat('<think></think>\\boxed{1', { thinkingClosed: true })).toBe(false);
  expect(hasFormat('<think>\\boxed{1}', { thinkingClosed: false })).toBe(false);
});
