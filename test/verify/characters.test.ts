/** Characters that are not seen, that look like others or that stand for a command: which number an answer shows. */
import { hasFormat, verifyAnswer } from '../../packages/verify/src/verify';

test.each([
  ['48', '\\boxed{4\u200b8}'],
  ['995', '\\boxed{\u202a9\u206095\u202c}'],
  ['995', '\\boxed{9\ufeff95}'],
  ['995', '\\boxed{\u202b995\u202c}'],
  ['995', '\\boxed{\u2067995\u2069}'],
  ['995', '\\boxed{9\u00ad9\ufe0f5}'],
  ['7', '\\boxed{\u202e7\u202c}'],
  ['94', 'The answer is 9\u200b4.'],
  ['94', 'The answer is 𝟗𝟒.'],
  ['-94', 'The answer is −94.'],
  ['x^2', '\\boxed{𝑥²}'],
  ['\\frac12', '\\boxed{½}'],
  ['\\frac72', '\\boxed{3½}'],
  ['3', '\\boxed{∛27}'],
  ['2', '\\boxed{∜16}'],
  ['6', '\\boxed{2\u20623}'],
  ['2x', '\\boxed{2\u2062x}'],
  ['3\\pi', '\\boxed{3\u2062π}'],
  ['1, 2', '\\boxed{1、2}'],
  ['73', '\\boxed{٧٣}'],
  ['3.5', '\\boxed{٣٫٥}'],
  ['12', '\\boxed{１２}'],
  ['e', '\\boxed{ⅇ}'],
  ['\\mathbb{R}', '\\boxed{ℝ}'],
  ["f'(x)=2", '\\boxed{f\u2032(x)=2}'],
  ['\\frac{3}{4}', '\\boxed{¾}'],
])('reference %s: %s is right', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(true);
});

test.each([
  ['995', '\\boxed{9\u00ad9\ufe0f5🏻}'],
  ['995', '\\boxed{\u202e599\u202c}'],
  ['599', '\\boxed{\u202e599\u202c}'],
  ['94', 'The answer is \u202e49\u202c.'],
  ['49', 'The answer is \u202e49\u202c.'],
  ['94', 'The answer is −94.'],
  ['x2', '\\boxed{x²}'],
  ['3', '\\boxed{√27}'],
  ['23', '\\boxed{2\u20623}'],
  ['12', '\\boxed{1、2}'],
  ['37', '\\boxed{٧٣}'],
])('reference %s: %s is wrong', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(false);
});

test('a box whose name has an invisible character inside counts for the format too', () => {
  expect(hasFormat('\\bo\u200bxed{5}', { thinkingClosed: true })).toBe(true);
});

test('a reference of invisible characters alone is empty', () => {
  expect(verifyAnswer('\u200b', '\\boxed{5}').status).toBe('gold-unparseable');
});
