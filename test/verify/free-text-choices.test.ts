/** A choice in a sentence, where the reference is a letter from A to J. */
import { verifyAnswer } from '../../packages/verify/src';

const right = (gold: string, text: string) => [text, gold, verifyAnswer(gold, text).correct];

test.each([
  ['B', 'The answer is (B).'],
  ['B', 'The correct choice is **B**.'],
  ['B', '**Answer: B**'],
  ['B', '**Answer**: B'],
  ['A', 'ANSWER: **A**'],
  ['A', 'ANSWER: A'],
  ['C', 'Answer: C'],
  ['B', 'Answer: B) 12 apples'],
  ['B', 'Answer: (B) 12 apples'],
  ['D', 'Option D is correct'],
  ['D', '(D) is the correct answer, because 3 + 4 = 7.'],
  ['B', 'There are 12, so the answer is B.'],
  ['B', 'The answer is $\\text{B}$'],
  ['B', 'The answer is \\(\\textbf{(B)}\\).'],
  ['H', 'The answer is (H).'],
  ['B', 'It is not (A), so the answer is (B).'],
  ['C', 'The answer is (B), no wait, the answer is (C)'],
  ['B', "The answer is (C)? No. It's (B)."],
  ['B', 'The correct answer is option B because 3 > 2.'],
  ['B', 'The answer is B, not A.'],
  ['B', '**B**'],
])('%s: %s', (letter, text) => {
  for (const gold of [letter, `(${letter})`, `\\text{${letter}}`, `$\\textbf{(${letter})}$`])
    expect(right(gold, text)).toEqual([text, gold, true]);
  for (const other of ['A', 'B', 'C', 'D', 'E', 'J'].filter((one) => one !== letter))
    expect(right(other, text)).toEqual([text, other, false]);
});

test.each([
  ['A', 'A perfect answer'],
  ['A', 'the article a'],
  ['A', 'The answer is a perfect square'],
  ['A', 'Answer: A perfect square has such digits.'],
  ['I', 'The answer is I think not known'],
  ['A', 'A or B or C'],
  ['C', 'A or B or C'],
  ['A', 'The answer is A or B.'],
  ['B', 'The answer is A or B.'],
  ['B', 'The answer is either A or B.'],
  ['B', 'The answer is (A), (B)'],
  ['B', 'The answer is not (B).'],
  ['B', "The answer isn't B"],
  ['B', "I don't think the answer is (B)."],
  ['B', 'Neither A nor B is correct'],
  ['B', 'B is not correct'],
  ['B', 'B is incorrect'],
  ['B', 'If the answer is (B), then x = 3'],
  ['B', 'The answer is (B)?'],
  ['B', 'The answer is B + 1'],
  ['B', 'The answer is (B) is wrong'],
  ['B', 'The answer is Bob'],
])('not %s: %s', (letter, text) => {
  for (const gold of [letter, `(${letter})`]) expect(right(gold, text)).toEqual([text, gold, false]);
});

test('hostile texts', () => {
  for (const piece of [
    'answer is (',
    'answer: *',
    'A is ',
    '(A) is the ',
    'Answer: B or ',
    '\\text{',
    '* ',
  ]) {
    expect([piece, verifyAnswer('J', piece.repeat(20_000)).correct]).toEqual([piece, false]);
  }
});
