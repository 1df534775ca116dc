/** Irrational values: near misses are told apart, identities are recognised. */
import { verifyAnswer } from '../../packages/verify/src';
import { multiply } from '../../packages/verify/src/ball';

const right = (gold: string, answer: string): boolean =>
  verifyAnswer(gold, `So $\\boxed{${answer}}$.`).correct;

const DIFFERENT: [string, string][] = [
  ['\\frac{1}{2000}', '\\sqrt{1000001}-\\sqrt{1000000}'],
  ['10^{10}', '\\sqrt{10^{20}+1}'],
  ['\\pi', '\\pi+10^{-12}'],
  ['\\pi', '\\pi+10^{-40}'],
  ['1414213562373095', '10^{15}\\sqrt2'],
  ['1414213562373095.0', '10^{15}\\sqrt2'],
  ['262537412640768744', 'e^{\\pi\\sqrt{163}}'],
  ['x', 'x+10^{-14}'],
  ['x', 'x+10^{-45}'],
  ['\\sin x', '\\sin x+10^{-20}'],
  ['2^{100}\\sqrt3', '2^{100}\\sqrt3+10^{-8}'],
  ['\\sqrt{2}+\\sqrt{3}', '\\sqrt{5+2\\sqrt{6}+10^{-30}}'],
  ['\\frac{355}{113}', '\\pi'],
  ['\\ln 2', '\\ln(2+10^{-35})'],
  ['\\sin 1', '\\sin(1+10^{-30})'],
  ['1', '\\frac{9007199254740993}{9007199254740992}'],
  ['1', '1.0000000000000002'],
  ['9007199254740993', '9007199254740992'],
  ['3^{1000000}', '9^{500000}\\cdot 3'],
  ['f(x)', 'f(x+10^{-14})'],
  ['y = 2x', 'y = 2x + 10^{-14}'],
  ['x < \\sqrt2', 'x < \\sqrt{2+10^{-20}}'],
  ['[0,\\sqrt2]', '[0,\\sqrt{2+10^{-20}}]'],
  ['(1+\\sqrt2, \\pi)', '(1+\\sqrt2, \\pi+10^{-15})'],
  ['\\sqrt{10^{40}+1}-10^{20}', '0'],
  ['n!', 'n!+10^{-14}'],
  ['2^{-100}\\sqrt2', '2^{-100}\\sqrt{2+10^{-18}}'],
  ['\\exp_2 x', '\\exp_3 x'],
  ['\\exp_2 3', '\\exp 3'],
  ['\\arctan_2 x', '\\arctan_3 x'],
];

const SAME: [string, string][] = [
  ['\\frac{\\sqrt2}{2}', '\\frac{1}{\\sqrt2}'],
  ['\\sqrt{12}', '2\\sqrt3'],
  ['\\sqrt[3]{54}', '3\\sqrt[3]{2}'],
  ['\\sqrt{2}+\\sqrt{3}', '\\sqrt{5+2\\sqrt{6}}'],
  ['\\sqrt[3]{2+\\sqrt5}+\\sqrt[3]{2-\\sqrt5}', '1'],
  ['\\cos 36^\\circ', '\\frac{1+\\sqrt5}{4}'],
  ['\\sin 15^\\circ', '\\frac{\\sqrt6-\\sqrt2}{4}'],
  ['\\sin 18^\\circ', '\\frac{\\sqrt5-1}{4}'],
  ['\\arctan 1+\\arctan 2+\\arctan 3', '\\pi'],
  ['\\arctan\\frac12+\\arctan\\frac13', '\\frac{\\pi}{4}'],
  ['4\\arctan\\frac15-\\arctan\\frac1{239}', '\\frac{\\pi}{4}'],
  ['\\ln 8', '3\\ln 2'],
  ['\\log_4 8', '\\frac32'],
  ['e^{2\\ln 3}', '9'],
  ['e^{i\\pi/3}', '\\frac{1+i\\sqrt3}{2}'],
  ['(\\frac{-1+i\\sqrt3}{2})^3', '1'],
  ['(1+\\sqrt2)^{10}', '3363+2378\\sqrt2'],
  ['\\frac{1}{\\sqrt{10^{12}+1}-10^6}', '\\sqrt{10^{12}+1}+10^6'],
  ['\\frac12', '10^{20}(\\sqrt{1+10^{-20}}-1)+\\frac12-10^{20}(\\sqrt{1+10^{-20}}-1)'],
  ['9^{500000}', '3^{1000000}'],
  ['\\frac{\\pi}{2}', '\\arcsin 1'],
  ['\\frac{\\pi}{6}', '\\arcsin\\frac12'],
  ['\\frac{2\\pi}{3}', '\\arccos(-\\frac12)'],
  ['0', '\\sin\\pi'],
  ['9999999999', '\\lfloor\\sqrt{10^{20}-1}\\rfloor'],
  ['\\cosh(\\ln 2)', '\\frac54'],
  ['\\tan\\frac{\\pi}{8}', '\\sqrt2-1'],
  ['x^2-2', '(x-\\sqrt2)(x+\\sqrt2)'],
  ['\\sqrt{x^2+2x+1}', '|x+1|'],
  ['y = \\sqrt2 x', '\\sqrt2 y = 2x'],
  ['\\sqrt2', '1.4142136'],
  ['\\pi', '3.14159265'],
  ['i', '\\sqrt{-1}'],
  ['\\sqrt{i}', '\\frac{1+i}{\\sqrt2}'],
];

test.each(DIFFERENT)('%s is not %s', (gold, answer) => {
  expect(right(gold, answer)).toBe(false);
  expect(right(answer, gold)).toBe(false);
});

test.each(SAME)('%s is %s', (gold, answer) => {
  expect(right(gold, answer)).toBe(true);
  expect(right(answer, gold)).toBe(true);
});

test('fewer digits are compared if the caller asks for it', () => {
  expect(verifyAnswer('\\pi', '$\\boxed{\\pi+10^{-12}}$', { numericPrecision: 10 }).correct).toBe(true);
});

test('a ball with no digits left stays small', () => {
  let ball = { m: 3n, r: 2n, e: 0 };
  for (let i = 0; i < 30; i++) ball = multiply(ball, ball, 224);
  expect(ball.r.toString(2).length).toBeLessThan(600);
  // The ball contains 1 and 5, so its power contains theirs.
  expect(ball.e).toBeGreaterThan(0);
});
