/** Which boxes are the answer. */
import { verifyAnswer, verifyCompletion } from '../../packages/verify/src';

const NOISE = 'We check $x = 3$ and $y = 17$, so that 4, 5 and 6 are left over; nothing changes. ';
const after = (chars: number): string => NOISE.repeat(Math.ceil(chars / NOISE.length)).slice(0, chars);

describe('boxes that form a list', () => {
  test.each([
    ['$\\boxed{12}$, $\\boxed{14}$', '12,14'],
    ['$\\boxed{12}$ and $\\boxed{14}$', '12,14'],
    ['\\(\\boxed{12}\\), \\(\\boxed{14}\\), and \\(\\boxed{15}\\)', '12,14,15'],
    ['$\\boxed{12} \\text{ and } \\boxed{14}$', '12,14'],
    ['$\\boxed{12} \\quad \\text{or} \\quad \\boxed{14}$', '12,14'],
    ['$$\\boxed{12}$$\nor\n$$\\boxed{14}$$', '12,14'],
    ['\\boxed{3} or \\boxed{3}', '3'],
    ['$\\boxed{3} \\text{ for part (a) and } \\boxed{4}$', '3,4'],
    ['$x = \\boxed{5}$ and $y = \\boxed{-8}$', 'x = 5,y = -8'],
    ['$x_1=\\boxed{5}$, $x_{2}=\\boxed{6}$', 'x_1=5,x_{2}=6'],
  ])('%s', (text, extracted) => {
    expect(verifyCompletion(text, '1').extracted).toBe(extracted);
    expect(verifyAnswer('1', text).extracted).toBe(extracted);
  });
});

describe('otherwise the last one counts', () => {
  test.each([
    ['The answer is $\\boxed{12}$. Wait, no: it is $\\boxed{14}$.', '14'],
    ['The sum is $\\boxed{12}$, and therefore the product is $\\boxed{14}$', '14'],
    ['$\\boxed{12}$, so $\\boxed{14}$', '14'],
    ['$\\boxed{12}$. $\\boxed{14}$', '14'],
    ['$\\boxed{3}$ because $\\boxed{14}$', '14'],
    ['$\\boxed{1}$ and then $\\boxed{12}$, $\\boxed{14}$', '12,14'],
    ['$\\boxed{12}$, $y = \\boxed{14}$', '14'],
    ['$\\boxed{12} + \\boxed{14}$', '14'],
  ])('%s', (text, extracted) => {
    expect(verifyCompletion(text, '1').extracted).toBe(extracted);
    expect(verifyAnswer('1', text).extracted).toBe(extracted);
  });
});

describe('a box counts however long the text after it', () => {
  test.each([0, 4_000, 5_000, 40_000])('%d characters', (chars) => {
    for (const text of [
      `$\\boxed{42}$ ${after(chars)}`,
      `<think>${after(chars)} \\boxed{1}</think> So $\\boxed{42}$. ${after(chars)}`,
      `${after(chars)} \\boxed{41}. ${after(chars)} \\boxed{42} ${after(chars)}`,
    ]) {
      expect(verifyAnswer('42', text).extracted).toBe('42');
      expect(verifyCompletion(text, '42').correct).toBe(true);
    }
  });

  test('an unclosed box long before the end is the answer, not the text after it', () => {
    const text = `So $\\boxed{41 ${after(9_000)} and 42`;
    expect(verifyAnswer('42', text).status).toBe('unparseable');
  });

  test('a box that is too long to be parsed is the answer, not its end', () => {
    for (const text of [`\\boxed{${'x'.repeat(30_000)} 7}`, `\\boxed{${'x '.repeat(30_000)} $7$}`]) {
      expect(verifyAnswer('7', text).correct).toBe(false);
      expect(verifyCompletion(text, '7').correct).toBe(false);
    }
  });

  test('only the end of text without a box is searched', () => {
    expect(verifyAnswer('42', `The answer is $42$. ${'so on '.repeat(1_000)}`).status).toBe('unparseable');
  });
});

test('boxes of a reference form a list when they are close together', () => {
  expect(verifyAnswer('\\boxed{1} papers and \\boxed{2} bins', '$\\boxed{1,2}$').correct).toBe(true);
  expect(verifyAnswer('\\boxed{1} papers and \\boxed{2} bins', '$\\boxed{2}$').correct).toBe(false);
});
