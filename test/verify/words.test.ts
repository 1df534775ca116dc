/** Words beside a value: units, counted things and introductions are dropped, every other word changes it. */
import { verifyAnswer, verifyCompletion } from '../../packages/verify/src';

const split = (words: string): string[] => words.split('|');

const both = (gold: string, text: string): boolean[] => [
  verifyAnswer(gold, text).correct,
  verifyCompletion(text, gold).correct,
];

const CHANGES_AFTER = split(
  'squared|minus 1|divided by 2|halves|factorial|below zero|cubed|thirds|hundredths|dozens|dozen|mod 5|modulo 5|times 2|plus 1|' +
    'less than that|or more|or less|at most|at least|k|thousand|hundreds|tens|percent|percent less|fewer|doubled|halved|in binary|' +
    'radix 8|in base 8|over 2|choose 2|point 5|to the power 2|to the fourth|square|cube|cubic|root|square root|inverse|' +
    'negated|prime|even|ish|quarters|scores|is wrong|not|!|tenths|fold|lots|and a half|past noon|above|before|after|' +
    'ago|too many|off|from the end|excluded|B|M|per thousand|out of 30|of 30|ths|gross|feet below sea level|dollars less',
);
const UNITS_AFTER = split(
  'apples|cm|inches|square units|cubic cm|dollars|degrees|students|ways|units|cm^2|miles per hour|km/h|m/s^2|sq ft|years old|' +
    'feet tall|people|pairs|points|solutions|integers|possible values|different ways|ordered pairs|children tickets|' +
    'dollars in total|apples each|gm|N|J|liters of water|marbles left|three-digit numbers|positive integers|prime numbers|' +
    'lattice points|kWh|nm|unit squares|real roots|euros|inches squared|K|dollars a day',
);
const CHANGES_BEFORE = split(
  'a multiple of|unequal to|excluding|the predecessor of|different from|nearly|almost|not|at least|less than|twice|half of|' +
    'the square of|the negative of|minus|plus|one more than|up to|before|without|a divisor of|anything but|no|modulo|base|log|' +
    'the reciprocal of|between|above|close to|any number but|cannot be|double|root|the sum of|the product of|greater than|' +
    'the number before|one of|either|congruent to|I doubt it is|maybe|if|the wrong answer is|lower bound|minimum|maximum|' +
    'sum of digits of|number of factors of|10 times|a quarter of|next to',
);
const INTRODUCES = split(
  'Total:|The answer is|about|approximately|Area:|Area =|the value of x is|so|the sum is|Number of ways:|there are|we get|x is|' +
    'exactly|only|Answer:|the minimum value is|the remainder is|is equal to|the total number of apples is|' +
    'Therefore, the answer is|they have|total cost of|least common multiple:|There are a total of|the',
);

test('words after a value that change it', () => {
  for (const words of CHANGES_AFTER) {
    for (const answer of [`26\\text{ ${words}}`, `26~\\mathrm{${words}}`]) {
      expect([answer, ...both('26', `\\boxed{${answer}}`)]).toEqual([answer, false, false]);
    }
  }
});

test('units and counted things', () => {
  for (const words of UNITS_AFTER) {
    const text = `$\\boxed{26\\text{ ${words}}}$`;
    expect([words, ...both('26', text), ...both('27', text)]).toEqual([words, true, true, false, false]);
    const reversed = both(`26\\text{ ${words}}`, '$\\boxed{26}$');
    expect([words, ...reversed]).toEqual([words, true, true]);
  }
});

test('words before a value that change it', () => {
  for (const words of CHANGES_BEFORE) {
    for (const answer of [`\\text{${words} }26`, `\\text{${words} 26}`]) {
      expect([answer, ...both('26', `\\boxed{${answer}}`)]).toEqual([answer, false, false]);
    }
  }
});

test('introductions', () => {
  for (const words of INTRODUCES) {
    const text = `$\\boxed{\\text{${words} }26}$`;
    expect([words, ...both('26', text), ...both('-26', text)]).toEqual([words, true, true, false, false]);
  }
});

test('the name of a value says that it is another one', () => {
  for (const name of split(
    'lower bound|not|the square root of|at least|x is not|different from|anything but|wrong answer',
  )) {
    expect([name, ...both('26', `\\boxed{\\text{${name} } = 26}`)]).toEqual([name, false, false]);
  }
  expect(both('26', '\\boxed{\\text{Area} = 26}')).toEqual([true, true]);
});

test('a value after dropped words is another answer', () => {
  for (const answer of ['26\\text{ times }2', '26\\text{ point }5', '13\\text{ feet }2\\text{ inches}']) {
    expect([answer, ...both('26', `\\boxed{${answer}}`), ...both('52', `\\boxed{${answer}}`)]).toEqual([
      answer,
      false,
      false,
      false,
      false,
    ]);
    expect([answer, ...both(answer, `\\boxed{${answer}}`)]).toEqual([answer, true, true]);
  }
});

test('words that change a value equal the same words', () => {
  expect(both('\\text{a multiple of }26', '$\\boxed{\\text{a multiple of } 26}$')).toEqual([true, true]);
  expect(both('26\\text{ zorkmids}', '$\\boxed{26 \\text{ zorkmids}}$')).toEqual([true, true]);
});
