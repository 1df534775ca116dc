/** Spellings around and inside an answer: Markdown, tags, separators, powers of ten, currencies, unions, arrays. */
import { verifyAnswer } from '../../packages/verify/src';

test.each([
  ['95', '\\boxed{9\\!5}'],
  ['12345678', "\\boxed{12'345'678}"],
  ['12345', "The answer is 12'345."],
  ['(1,2)\\cup(3,4)', '\\boxed{(1,2) U (3,4)}'],
  ['(1,2)\\cup(3,4)', '\\boxed{(1,2)\\text{ U }(3,4)}'],
  ['(-\\infty,2)\\cup[3,4)', '\\boxed{\\left(-\\infty,2\\right) \\mathrm{U} \\left[3,4\\right)}'],
  ['(a+b)U(c)', '\\boxed{(b+a)U(c)}'],
  ['300000', '\\boxed{3x10^5}'],
  ['300000', 'The answer is 3x10^5.'],
  ['0.00032', '\\boxed{3.2 x 10^{-4}}'],
  ['1250', '\\boxed{USD 1250}'],
  ['1250', '\\boxed{1250 USD}'],
  ['1250', '\\boxed{US\\$1,250}'],
  ['1250', '\\boxed{Rs. 1250}'],
  ['1250', '\\boxed{\\text{USD } 1250}'],
  ['94', '<answer>94</answer>'],
  ['(2,5)', '<answer>(2, 5)</answer>'],
  ['94', 'First 84. <answer>94</answer>'],
  ['\\frac12', '<answer>\\frac{1}{2}</answer>'],
  ['94', '<answer>The answer is 94</answer> Done in 3 steps'],
  ['94', 'The answer is `94`.'],
  ['94', 'So we get `94`'],
  ['94', 'The answer is *94*.'],
  ['94', 'The answer is __94__.'],
  ['73', '\\boxed{**73**}'],
  ['73', '\\boxed{__73__}'],
  ['73', '\\boxed{*73*}'],
  ['73', '\\boxed{***73***}'],
  ['73', '\\boxed{`73`}'],
  ['73', '\\boxed{$73$}'],
  ['73', '\\boxed{**$73$**}'],
  ['x', '\\boxed{*x*}'],
  ['8', '\\boxed{2**3}'],
  ['abc', '\\boxed{a*b*c}'],
  ['24', '\\boxed{2*3*4}'],
  ['3,5', '\\boxed{**3**, **5**}'],
  ['3,5', '\\boxed{**3** and **5**}'],
  ['73', '\\boxed{x = **73**}'],
  ['\\text{East}', '\\boxed{**East**}'],
  ['(1,2)', '\\boxed{\\begin{array}{l} x=1 \\\\ y=2 \\end{array}}'],
  ['(1,2)', '\\boxed{\\begin{array}{rcl} x &=& 1 \\\\ y &=& 2 \\end{array}}'],
  [
    '\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}',
    '\\boxed{\\left(\\begin{array}{cc}1&2\\\\3&4\\end{array}\\right)}',
  ],
])('reference %s: %s is right', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(true);
});

test.each([
  ['45', '\\boxed{9\\!5}'],
  ['6', '\\boxed{2\\!3}'],
  ['12', "The answer is 12'345."],
  ['(1,2)\\cup(3,4)', '\\boxed{(-\\infty,2) \\mathrm{U} [3,4)}'],
  ['(1,2)\\cap(3,4)', '\\boxed{(1,2) U (3,4)}'],
  ['30000', '\\boxed{3x10^5}'],
  ['3', 'The answer is 3x10^5.'],
  ['1250', '\\boxed{USD 1520}'],
  ['84', 'First 84. <answer>94</answer>'],
  ['84', 'The answer is `94`.'],
  ['23', '\\boxed{**2**3}'],
  ['73', '\\boxed{**37**}'],
  ['(2,1)', '\\boxed{\\begin{array}{l} x=1 \\\\ y=2 \\end{array}}'],
])('reference %s: %s is wrong', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(false);
});

test('a point that begins no number is no error', () => {
  expect(verifyAnswer('5', '\\boxed{x.\\overline{AB}}').correct).toBe(false);
  expect(verifyAnswer('5', '\\boxed{.\\overline}').correct).toBe(false);
});
