/** Inequalities for reference intervals: ends, brackets, direction. */
import { verifyAnswer } from '../../packages/verify/src';

test.each([
  ['[0,5]', '\\boxed{0 \\le x \\le 5}'],
  ['[0,5)', '\\boxed{0 \\le x < 5}'],
  ['(0,5]', '\\boxed{0 < t \\le 5}'],
  ['(0,5)', '\\boxed{0 < x < 5}'],
  ['[0,5]', '\\boxed{5 \\ge x \\ge 0}'],
  ['[0,5]', '\\boxed{x \\in [0,5]}'],
  ['[0,5]', '\\boxed{x\\ge 0, x\\le 5}'],
  ['[0,5]', '\\boxed{x\\ge 0 \\text{ and } x\\le 5}'],
  ['(0,\\infty)', '\\boxed{x>0}'],
  ['[0,\\infty)', '\\boxed{0\\le x}'],
  ['(-\\infty,2)\\cup(3,\\infty)', '\\boxed{x<2\\text{ or }x>3}'],
  ['(-\\infty,2)\\cup(3,\\infty)', '\\boxed{x<2,\\ x>3}'],
  ['[-\\sqrt2,\\sqrt2]', '\\boxed{-\\sqrt{2}\\le x\\le\\sqrt{2}}'],
  ['[-2,2]', '\\boxed{|x|\\le 2}'],
  ['[0,5]', '\\boxed{\\{x \\mid 0\\le x\\le 5\\}}'],
  ['[0,5]', '\\boxed{0\\le f(x)\\le 5}'],
  ['[a,b]', '\\boxed{a \\le x \\le b}'],
  ['(a,b)', '\\boxed{a < x < b}'],
])('reference %s: %s is right', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(true);
});

test.each([
  ['[0,5]', '\\boxed{0 \\le x < 5}'],
  ['(0,5)', '\\boxed{0 \\le x \\le 5}'],
  ['[0,5]', '\\boxed{5 \\le x \\le 0}'],
  ['[0,5]', '\\boxed{0 \\ge x \\ge 5}'],
  ['[0,5]', '\\boxed{x \\in [0,5)}'],
  ['[0,5]', '\\boxed{0 \\le x \\le 6}'],
  ['[0,5]', '\\boxed{x\\ge 0 \\text{ or } x\\le 5}'],
  ['(0,\\infty)', '\\boxed{x\\ge0}'],
  ['(0,\\infty)', '\\boxed{x<0}'],
  ['(-\\infty,2)\\cup(3,\\infty)', '\\boxed{2<x<3}'],
  ['[-2,2]', '\\boxed{|x|< 2}'],
  ['[0,5]', '\\boxed{0 \\leq x \\leq 5, x\\in\\mathbb{Z}}'],
  ['[0,5]', '\\boxed{0 \\leq n \\leq 5 \\text{ with } n\\in\\mathbb{Z}}'],
  ['0,5', '\\boxed{0 \\leq x \\leq 5}'],
  ['\\{0,5\\}', '\\boxed{0 \\leq x \\leq 5}'],
  ['5', '\\boxed{0 \\leq x \\leq 5}'],
  ['(a,b)', '\\boxed{a \\le x \\le b}'],
])('reference %s: %s is wrong', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(false);
});
