/** Words beside a value in text without a box: what denies, bounds or computes with it counts as in a box. */
import { verifyAnswer } from '../../packages/verify/src';

const right = (gold: string, text: string) => [text, gold, verifyAnswer(gold, text).correct];

const NOT_94 = [
  ...['The answer is not 94, it is 84.', "The answer isn't 94 but 84.", 'The answer isn’t 94'],
  ...[
    'Answer: not 94',
    'The answer is not **94**',
    'The answer is\nnot 94',
    'not 94',
    'It does not equal 94',
  ],
  ...['I conclude that it cannot be 94.', 'The final answer is not $94$.', "The answer can't be $94$"],
  ...['The answer is at least 94.', 'The answer is less than 94', 'more than 94', 'The answer is over 94'],
  ...['The answer is at most $x = 94$', 'The lower bound is 94', 'The answer might be 94'],
  ...['The answer is between 94 and 99', 'The answer is between 90 and 94', 'The answer is 94 to 99'],
  ...['The answer is 94 or 95.', 'The answer is 93 or 94', 'The answer is 94 and 95'],
  ...['The answer is either 94 or 95', 'The answer is neither 94 nor 95'],
  ...['84, rather than 94.', 'We get 84 and not 94.', 'The answer is never 94', 'nearly 94'],
  ...['The answer is 94 thousand.', '94 squared', 'The answer is $94$ squared', '94 minus 1', '94 times 2'],
  ...['a multiple of 94', 'The answer is the predecessor of 94', 'The answer is twice 94.'],
  ...['The answer is half of $94$', 'The answer is the square root of 94'],
  ...['The answer is 94 in base 8', 'The answer is 94 to the power 3', 'The answer is 94 halves'],
  ...['The answer is 94 or more.', 'Answer: $94$ or more', 'The answer is 94 dollars less than that'],
  ...['Half of the answer is 94', 'It is 94 minutes after noon', '94 is wrong', 'We know 94 is too large'],
];

const IS_94 = [
  ...['The answer is 94.', 'The answer is 94!', 'The answer is: 94', 'The answer is:\n94', 'Answer: \\$94'],
  ...['**Answer:** 94', 'The answer: **94**', '**94**', '#### 94', '= 94', 'x = 94', '94\n', 'Answer: 94 cm'],
  ...['The answer is $x = 94$.', 'The final answer is therefore 94 dollars', 'Final answer: 94'],
  ...['The final answer is $94$. I hope it is correct.', 'So the answer is\n\n$$94$$'],
  ...['The answer to the problem is 94', 'The answer is about 94', 'The answer must be 94'],
  ...['The answer is $94$ because of symmetry', '94 is the answer', 'The total is 40 + 54 = 94'],
  ...[
    'So we get 94 apples.',
    'There are 94 apples in the basket.',
    'Maria pays a total of 94 dollars to Tom.',
  ],
  ...['Therefore there are 94 ways to do this', 'So the number of different ways is 94'],
  ...['After she gave away 3 apples, she has 94 left', 'She earns $94'],
  ...[
    'The answer is not 84, it is 94.',
    "The answer isn't 84 but 94.",
    'Not 84 but 94',
    'It is not 84. It is 94.',
  ],
  ...[
    'We get 94 and not 84.',
    '94, rather than 84.',
    'The answer is 94, not 84.',
    'The answer is 94 (not 84)',
  ],
  ...['The answer is not obvious, but it is 94.', 'Thus, this solves to $k=94$.'],
  ...["Without those that don't work, what is left of the total number gives us our answer: 94."],
  ...['Thus, the value of the square is $94$.', 'or 3 in one and 2 in the other, for a total of $94$ ways.'],
  ...['They have $94$ cents left after converting the rest.'],
  ...['The price decreased by 94.', '94 satisfies the requirements of the problem'],
];

test.each(NOT_94)('%s: not 94', (text) => {
  expect(right('94', text)).toEqual([text, '94', false]);
});

test.each(IS_94)('%s: 94, and no other number', (text) => {
  expect(right('94', text)).toEqual([text, '94', true]);
  expect(right('84', text)).toEqual([text, '84', false]);
});

test('a denied value is passed over for one that is affirmed in its sentence, and for no earlier one', () => {
  for (const text of [
    'The answer is not 94, it is 84.',
    "The answer isn't 94 but 84.",
    '84, rather than 94.',
    'We get 84 and not 94.',
  ]) {
    expect(right('84', text)).toEqual([text, '84', true]);
  }
  expect(right('5', 'She has 5 apples. It cannot be 94.')[2]).toBe(false);
});

test('the words are part of the answer', () => {
  expect(right('at least 94', 'The answer is at least 94.')[2]).toBe(true);
  expect(right('94000', 'The answer is 94 thousand.')[2]).toBe(true);
  expect(right('94, 95', 'The answers are 94 and 95.')[2]).toBe(true);
  expect(right('94, 96', 'The answers are 94 and 95.')[2]).toBe(false);
});

test('a text that breaks off after an operator has no answer, but one given before counts', () => {
  for (const text of ['so x = 3 + 94 =', 'so 94 +', 'The answer is 94 =', 'hence $x = 94 \\times', '94 * ']) {
    expect(right('94', text)).toEqual([text, '94', false]);
  }
  for (const text of ['The answer is 94. Check: 90 + 4 =', '**94**', 'The answer is 94\n---', '*94*']) {
    expect(right('94', text)).toEqual([text, '94', true]);
  }
});

test('long and hostile texts are read in the time of their length', () => {
  for (const piece of ['1 or ', '1, ', 'not ', 'answer: 1 ', '$1$ and ', 'the sum of 5 apples of ', '= ']) {
    const text = piece.repeat(20_000);
    expect([piece, verifyAnswer('94', `${text} 94 ${text}`).correct]).toEqual([piece, false]);
  }
});
