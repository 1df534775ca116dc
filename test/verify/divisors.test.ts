/** Greatest common divisors and least common multiples of numbers and of variables. */
import { verifyAnswer } from '../../packages/verify/src';

test.each([
  ['3', '\\boxed{\\gcd(6,9)}'],
  ['18', '\\boxed{\\operatorname{lcm}(6,9)}'],
  ['6', '\\boxed{\\text{gcd}(12, 18, 30)}'],
  ['2', '\\boxed{\\gcd(\\gcd(12,18),4)}'],
  ['36', '\\boxed{\\mathrm{LCM}\\left(4, 9, 12\\right)}'],
  ['36', '\\boxed{LCM(4, 9, 12)}'],
  ['6', '\\boxed{\\text{HCF}(12,18)}'],
  ['6', '\\boxed{\\operatorname{hcf}(12,18)}'],
  ['\\gcd(6,9)', '\\boxed{3}'],
  ['\\gcd(a,b)', '\\boxed{\\gcd(b,a)}'],
  ['5', '\\boxed{\\gcd(6,9)+2}'],
  ['1267650600228229401496703205376', '\\boxed{\\gcd(2^{100}, 6^{100})}'],
  ['\\sqrt{3}', '\\boxed{\\sqrt{\\gcd(6,9)}}'],
])('reference %s: %s is right', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(true);
});

test.each([
  ['6', '\\boxed{\\gcd(6,9)}'],
  ['\\gcd(a,b)', '\\boxed{\\gcd(a,c)}'],
  ['1267650600228229401496703205377', '\\boxed{\\gcd(2^{100}, 6^{100})}'],
  ['\\sqrt{2}', '\\boxed{\\sqrt{\\gcd(6,9)}}'],
])('reference %s: %s is wrong', (gold, answer) => {
  expect(verifyAnswer(gold, answer).correct).toBe(false);
});
