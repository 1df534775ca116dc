/** A slice of what scripts/fuzz-verify.mjs runs a million cases of. */
import { verifyAnswer } from '../../src/verify';
import { fuzzCase, SEEDS } from '../../scripts/lib/fuzz-answers.cjs';

const STATUSES = ['correct', 'incorrect', 'unparseable', 'timeout', 'gold-unparseable'];

test('random and mutated inputs always get a verdict, the same one twice', () => {
  for (let index = 0; index < 8_000; index++) {
    const { gold, completion, options } = fuzzCase(index);
    const verdict = verifyAnswer(gold, completion, options);
    if (!STATUSES.includes(verdict.status)) throw new Error(`case ${index}: ${verdict.status}`);
    if (index % 8 === 0) expect(verifyAnswer(gold, completion, options)).toEqual(verdict);
  }
});

test('every answer the mutations start from equals itself', () => {
  const wrong = SEEDS.filter((answer) => !verifyAnswer(answer, `So \\boxed{${answer}}`).correct);
  expect(wrong).toEqual([]);
});

test('no two of them are equal unless they are', () => {
  const equal = SEEDS.flatMap((a, i) =>
    SEEDS.slice(i + 1)
      .filter((b) => verifyAnswer(a, `So \\boxed{${b}}`).correct)
      .map((b) => [a, b]),
  );
  // A ratio is a quotient; a tuple may be given as a set in its order.
  expect(equal).toEqual([
    ['\\frac{3}{4}', '3:4'],
    ['(x-1)(x+1)', 'x^2 - 1'],
    ['(1, 2, 3)', '\\{1, 2, 3\\}'],
  ]);
});
