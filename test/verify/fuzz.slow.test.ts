/** A few of the cases that scripts/fuzz-readers.mjs begins with. */
import { verifyAnswer } from '../../packages/verify/src';
import { fuzzCase, SEEDS } from '../../scripts/lib/fuzz-answers.cjs';

const STATUSES = ['correct', 'incorrect', 'unparseable', 'timeout', 'gold-unparseable'];

test('random and mutated inputs always get a verdict, and the same one again', () => {
  for (let index = 0; index < 8_000; index++) {
    const { gold, completion, options } = fuzzCase(index);
    const verdict = verifyAnswer(gold, completion, options);
    if (!STATUSES.includes(verdict.status)) throw new Error(`case ${index}: ${verdict.status}`);
    if (index % 8 === 0) expect(verifyAnswer(gold, completion, options)).toEqual(verdict);
  }
});

test('every seed answer equals itself', () => {
  const wrong = SEEDS.filter((answer) => !verifyAnswer(answer, `So \\boxed{${answer}}`).correct);
  expect(wrong).toEqual([]);
});

test('no two seed answers are equal except known forms of the same value', () => {
  const equal = SEEDS.flatMap((a, i) =>
    SEEDS.slice(i + 1)
      .filter((b) => verifyAnswer(a, `So \\boxed{${b}}`).correct)
      .map((b) => [a, b]),
  );
  // A ratio is a quotient; a tuple may be given as a list in the same order.
  expect(equal).toEqual([
    ['\\frac{3}{4}', '3:4'],
    ['(x-1)(x+1)', 'x^2 - 1'],
    ['(1, 2, 3)', '\\{1, 2, 3\\}'],
  ]);
});
