/** Points with their names, alone and in lists. */
import { verifyAnswer } from '../../packages/verify/src';

test.each([
  ['(2,3)', '\\boxed{P(2,3)}'],
  ['(2,3)', '\\boxed{P = (2,3)}'],
  ['(2,3)', '\\boxed{A(2,3)}'],
  ['(2,3)', '\\boxed{A\\left(2, 3\\right)}'],
  ['(2,3)', "\\boxed{A' (2,3)}"],
  ['(2,3)', '\\boxed{P_1(2,3)}'],
  ['(2,3)', '\\boxed{P:(2,3)}'],
  ['(2,3)', '\\boxed{M(2;3)}'],
  ['(2,3)', '\\boxed{\\text{Point } P(2,3)}'],
  ['P(2,3)', '\\boxed{(2,3)}'],
  ['P(2,3)', '\\boxed{P=(2,3)}'],
  ['(1,2,3)', '\\boxed{D(1,2,3)}'],
  ['(1,2),(3,4)', '\\boxed{A(1,2), B(3,4)}'],
  ['(1,2),(3,4)', '\\boxed{A(1,2)\\text{ and }B(3,4)}'],
  ['A(1,2), B(3,4)', '\\boxed{A=(1,2), B=(3,4)}'],
  ['A(1,2), B(3,4)', '\\boxed{B(3,4), A(1,2)}'],
  ['(\\frac12,-3)', '\\boxed{P\\left(0.5,-3\\right)}'],
  ['P(2,3)=8', '\\boxed{P(2,3)=8}'],
  ['8', '\\boxed{P(2,3)=8}'],
])('reference %s: %s is right', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(true);
});

test.each([
  ['(2,3)', '\\boxed{P(3,2)}'],
  ['(2,3)', '\\boxed{P = (3,2)}'],
  ['(2,3)', '\\boxed{f(2,3)}'],
  ['f(2,3)', '\\boxed{(2,3)}'],
  ['P(2,3)', '\\boxed{Q(2,3)}'],
  ['P(2,3)', '\\boxed{P(2,4)}'],
  ['(1,2,3)', '\\boxed{D(1,3,2)}'],
  ['[2,3]', '\\boxed{P(2,3)}'],
  ['(2,3)', '\\boxed{P(2,3]}'],
  ['(2,3)', '\\boxed{P[2,3]}'],
  ['6', '\\boxed{P(2,3)}'],
  ['(1,2),(3,4)', '\\boxed{A(2,1), B(3,4)}'],
  ['A(1,2), B(3,4)', '\\boxed{A(3,4), B(1,2)}'],
])('reference %s: %s is wrong', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(false);
});
