/** The work budget ends hostile input with a verdict. */
import { verifyAnswer, verifyCompletion } from '../../packages/verify/src';
import { completeBoxes } from '../../packages/verify/src/boxed';

const nested = (levels: number): string =>
  Array.from({ length: levels }).reduce<string>((inner) => `(${inner})^2`, 'x');
const harmonic = (terms: number): string =>
  Array.from({ length: terms }, (_, i) => `\\frac{1}{${i + 1}}`).join('+');

const PATHOLOGICAL: [string, string][] = [
  ['a power tower', '9^{9^{9^{9^{9}}}}'],
  ['a chain of powers', `5.1 \\times 10${'^10'.repeat(150)}^{3}`],
  ['a large factorial', '(10^6)!'],
  ['a factorial of factorials', '((9!)!)!'],
  ['a power of a sum', '(1+x+y+z)^{400}'],
  ['24 nested squares', nested(24)],
  ['3000 nested brackets', `${'('.repeat(3_000)}1${')'.repeat(3_000)}`],
  ['a sum of 4000 terms', harmonic(4_000)],
  ['a sum of 150 fractions', harmonic(150)],
  ['a sum to 10^9', '\\sum_{k=1}^{10^9} \\frac{1}{k^2}'],
  ['an integral', '\\int_0^1 \\frac{\\sin x}{x} \\, dx'],
  ['100,000 digits', '9'.repeat(100_000)],
  ['sums in sums', '\\sum_{a=1}^{999}\\sum_{b=1}^{999}\\sum_{c=1}^{999} \\frac{abc}{a+b+c}'],
  ['64 surds', Array.from({ length: 64 }, (_, i) => `\\sqrt{${i + 2}}`).join(',')],
  ['64 functions', Array.from({ length: 64 }, (_, i) => `\\sin ${i + 2}+x^{${i}}`).join(',')],
  ['a large binomial', '\\binom{10^6}{500000}'],
  ['3000 dollars', '$ 1 '.repeat(3_000)],
  ['the word answer, many times', 'answer: 5 '.repeat(900)],
  ['open boxes', '\\boxed{'.repeat(2_000)],
];

/** Processor time, so that a busy machine does not matter. The budget is worth some tens of milliseconds. */
const LIMIT_MS = 100;

/** The minimum of up to three calls: the garbage collector and a cold cache can only add. */
function leastCpuMs(call: () => unknown): number {
  let least = Infinity;
  for (let round = 0; round < 3 && least >= LIMIT_MS; round++) {
    const before = process.cpuUsage();
    call();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1_000);
  }
  return least;
}

test.each(PATHOLOGICAL)('%s', (_, text) => {
  for (const gold of ['7', 'x', '\\sqrt{2}', text]) {
    for (const completion of [`\\boxed{${text}}`, text]) {
      const { status } = verifyAnswer(gold, completion);
      expect(['correct', 'incorrect', 'unparseable', 'timeout', 'gold-unparseable']).toContain(status);
      expect(leastCpuMs(() => verifyAnswer(gold, completion))).toBeLessThan(LIMIT_MS);
      if (gold !== text) expect(status).not.toBe('correct');
    }
  }
});

test('two values too large for any number are undecided, not equal', () => {
  expect(verifyCompletion('\\boxed{9^{9^{9^9}}}', '9^{9^{9^8}}').status).toBe('timeout');
  expect(verifyCompletion('\\boxed{9^{9^{9^9}}}', '9^{9^{9^9}}').status).toBe('correct');
});

test('a verdict does not depend on earlier ones', () => {
  const list = Array.from({ length: 40 }, (_, i) => `\\sin ${i + 2} + x^{${i}}`).join(',');
  const verdicts = [1, 2, 3].map(() => verifyAnswer(list, `\\boxed{${list}, 1}`).status);
  expect(new Set(verdicts).size).toBe(1);
});

test('boxes are found in one pass', () => {
  expect(completeBoxes('\\boxed{\\boxed{1}} \\boxed{2').map((box) => box.content)).toEqual([
    '\\boxed{1}',
    '1',
  ]);
});
