/** What a data set says about judging its answers: how far off a number may be, and whether repeats count. */
import { verifyAnswer, verifyCompletion } from '../../packages/verify/src';

const right = (gold: string, answer: string, grading?: object): boolean =>
  verifyCompletion(`So $\\boxed{${answer}}$.`, gold, 'answer', grading).correct;

test('repeats count where the data set says so', () => {
  const counted = { countRepeats: true };
  for (const [gold, answer, plain, withRepeats] of [
    ['16,3,1,1', '16, 3, 1', true, false],
    ['16,3,1,1', '1, 16, 1, 3', true, true],
    ['16,3,1,1', '16, 3, 3, 1', true, false],
    ['-2,-2', '-2', true, false],
    ['-2,-2', '\\{-2, -2\\}', true, true],
    ['1,2', '2,1', true, true],
    ['1,2', '1,2,2', true, false],
  ] as const) {
    expect({ gold, answer, right: right(gold, answer) }).toEqual({ gold, answer, right: plain });
    expect({ gold, answer, right: right(gold, answer, counted) }).toEqual({
      gold,
      answer,
      right: withRepeats,
    });
  }
});

test('a number may be off by at most the tolerance', () => {
  const tolerance = { tolerance: 0.1 };
  for (const [gold, answer, close] of [
    ['4.2', '4.2', true],
    ['4.2', '4.1', true],
    ['4.2', '4.3', true],
    ['4.2', '4.31', false],
    ['4.2', '\\frac{17}{4}', true],
    ['4.2', '3\\sqrt2', true],
    ['4.2', '3\\sqrt3', false],
    ['4.2', 'x', false],
    ['4.2', 'x = 4.25', true],
    ['4.2, 7', '7.1, 4.1', true],
  ] as const) {
    expect({ gold, answer, close: right(gold, answer, tolerance) }).toEqual({ gold, answer, close });
  }
  expect(right('4.2', '4.1')).toBe(false);
  expect(verifyAnswer('4.2', '$\\boxed{4.1}$', { tolerance: 0.1 }).correct).toBe(true);
});
