/** Constants of integration: any letter where the reference has one, and nothing else. */
import { verifyAnswer } from '../../packages/verify/src';

test.each([
  ['x^2+C', '\\boxed{x^2 + c}'],
  ['x^2+C', '\\boxed{x^2 + K}'],
  ['x^2+C', '\\boxed{x^2 + k}'],
  ['x^2+C', '\\boxed{c + x^2}'],
  ['x^2+C', '\\boxed{x^2 + C_1}'],
  ['x^2+C', '\\boxed{x^2 + C_{1}}'],
  ['x^2+C', '\\boxed{x^2 + \\text{constant}}'],
  ['x^2+C', '\\boxed{x^2 + \\text{C}}'],
  ['x^2+c', '\\boxed{x^2+C}'],
  ['\\ln|x|+C', '\\boxed{\\ln|x|+c}'],
  ['Ce^{x}', '\\boxed{ce^x}'],
  ['y=Ce^{x}', '\\boxed{y=ke^x}'],
  ['C_1e^x+C_2e^{-x}', '\\boxed{c_1e^x+c_2e^{-x}}'],
  ['\\frac{x^3}{3}-\\cos x+C', '\\boxed{\\frac{1}{3}x^3-\\cos x+c}'],
])('reference %s: %s is right', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(true);
});

test.each([
  ['x^2+C', '\\boxed{x^2}'],
  ['x^2', '\\boxed{x^2+C}'],
  ['x^2+C', '\\boxed{x^3+c}'],
  ['x^2+C', '\\boxed{2x^2+c}'],
  ['x^2+C', '\\boxed{x^2+cx}'],
  ['x^2+C', '\\boxed{x^2+y}'],
  ['x^2+C', '\\boxed{x^2+5}'],
  ['x^2+C', '\\boxed{x^2+c+k}'],
  ['x^2+c', '\\boxed{x^2+C x}'],
  ['a+b+c', '\\boxed{a+b+k}'],
  ['a+b+c', '\\boxed{a+b+C}'],
  ['180-C', '\\boxed{180-c}'],
  ['y=Ce^{x}', '\\boxed{y=ke^{2x}}'],
  ['C_1e^x+C_2e^{-x}', '\\boxed{c_1e^x+c_1e^{-x}}'],
  ['\\frac{x^3}{3}-\\cos x+C', '\\boxed{\\frac{1}{3}x^3+\\cos x+c}'],
  ['kx', '\\boxed{cx}'],
  ['kx+2', '\\boxed{cx+2}'],
])('reference %s: %s is wrong', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(false);
});
