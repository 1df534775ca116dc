import { hasFormat, verifyCompletion } from '../../packages/verify/src/verify';
import { answerRegion, lastBoxed } from '../../packages/verify/src/boxed';
import { processorMs } from '../../src/base/deadline';

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

test('the answer comes after closed thinking; thinking that was not closed has none', () => {
  expect(answerRegion('<think>a</think>b')).toEqual({ text: 'b', open: false });
  expect(answerRegion('<think>a \\boxed{1}')).toEqual({ text: '<think>a \\boxed{1}', open: true });
  expect(verifyCompletion('<think>\\boxed{1}</think>\\boxed{2}', '2').status).toBe('correct');
  expect(verifyCompletion('<think>\\boxed{2}</think>so it is', '2').status).toBe('unparseable');
  expect(verifyCompletion('<think>\\boxed{2}', '2').status).toBe('unparseable');
});

describe('where the answer counts', () => {
  test.each([
    ['no thinking', '\\boxed{2}', 'correct'],
    ['closed thinking', '<think>\\boxed{1}</think>\\boxed{2}', 'correct'],
    ['a box only inside closed thinking', '<think>\\boxed{2}</think>two', 'unparseable'],
    ['thinking never closed', '<think>so \\boxed{2}', 'unparseable'],
    ['truncated inside the box', '<think></think>\\boxed{2', 'unparseable'],
    ['opened in the prompt: only the close is seen', 'hm \\boxed{1}</think>\\boxed{2}', 'correct'],
    ['closed twice: all after the first close', '<think>a</think>\\boxed{2}</think>', 'correct'],
    [
      'closed twice with a box after each: the last',
      '<think></think>\\boxed{1} is too small by far</think>\\boxed{2}',
      'correct',
    ],
    ['a close spoken of in plain text counts as one', 'I write </think> here \\boxed{2}', 'correct'],
    ['a close in plain text after the box hides it', '\\boxed{2} and then </think>', 'unparseable'],
    ['an open tag in plain text changes nothing', '\\boxed{2} <think>', 'correct'],
    ['empty', '', 'unparseable'],
  ])('%s', (_, text, status) => expect(verifyCompletion(text, '2').status).toBe(status));
});

describe('several boxes', () => {
  test.each([
    ['the last of two far apart', '\\boxed{1} is what one might think at first \\boxed{2}', '2', '2'],
    ['nothing but a connecting word between: one answer', '\\boxed{1} or \\boxed{2}', '1,2', '1,2'],
    ['words between: the last', '\\boxed{1} for the first part, and \\boxed{2}', '2', '2'],
    ['the same box again is not a second item', '\\boxed{2}. So \\boxed{2}', '2', '2'],
    ['a percent sign after the box belongs to it', '$\\boxed{28}$ percent', '28\\%', '28\\%'],
  ])('%s', (_, text, gold, extracted) => {
    expect(verifyCompletion(text, gold)).toEqual({ correct: true, status: 'correct', extracted });
  });
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
  // Decimals are compared to six places, as in math_verify.
  ['1/3', '0.333333', 'correct'],
  ['1/3', '0.33333', 'incorrect'],
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

test('an empty box and an empty reference have their own statuses', () => {
  expect(verifyCompletion('\\boxed{}', '1').status).toBe('unparseable');
  expect(verifyCompletion('nothing', '1')).toEqual({
    correct: false,
    status: 'unparseable',
    extracted: null,
  });
  expect(verifyCompletion('\\boxed{1}', ' ').status).toBe('gold-unparseable');
  // A reference that cannot be parsed does not count against the answer; identical text is correct.
  expect(verifyCompletion('\\boxed{1}', '\\int_0^1 f').status).toBe('gold-unparseable');
  expect(verifyCompletion('\\boxed{\\int_0^1 f }', '\\int_0^1 f').status).toBe('correct');
  expect(verifyCompletion('\\boxed{\\int_0^1 f }', '1').status).toBe('unparseable');
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
  const startMs = processorMs();
  for (const text of hostile) {
    expect(typeof verifyCompletion(text, '1').status).toBe('string');
    expect(typeof verifyCompletion('\\boxed{1}', text).status).toBe('string');
  }
  expect(processorMs() - startMs).toBeLessThan(2000);
});

test('format needs closed thinking and a complete box', () => {
  expect(hasFormat('<think></think>\\boxed{1}', { thinkingClosed: true })).toBe(true);
  expect(hasFormat('<think></think>\\boxed{1', { thinkingClosed: true })).toBe(false);
  expect(hasFormat('<think>\\boxed{1}', { thinkingClosed: false })).toBe(false);
});
