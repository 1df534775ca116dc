/** Random and mutated answers for the verifier; the same seed gives the same answers. */
'use strict';

const { pick, randomFrom } = require('./random.cjs');
const { parts, together } = require('./fuzz-seeds.cjs');

/** Well-formed answers of every kind that the verifier reads, as starting points for mutations. */
const SEEDS = [
  '7', '-3', '2.50', '1,234', '12\\,500', '\\frac{3}{4}', '\\frac12', '3\\frac{1}{7}', '-\\dfrac{11}{9}', '5\\sqrt{21}', '\\sqrt[3]{-8}',
  '2\\pi r^2', '(x-1)(x+1)', 'x^2 - 1', '\\left( \\frac{2}{5}, 7 \\right)', '(1, 2, 3)', '[0, 1)', '(-\\infty, 3) \\cup (3, \\infty)',
  '\\{1, 2, 3\\}', '1, -1, 3i', 'x = 5', 'y = 2x + 3', 'f(x) = \\frac{1}{x}', '2x + 3y = 5', 'x \\ge 4', '-2 \\le x < 7', '|z| \\leq 2',
  '\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}', '\\text{Tuesday}', '(C)', '65\\%', '40\\text{ cm}^2', '\\$12.50', '90^\\circ', '1101_2',
  '1 \\pm \\sqrt{19}', '\\frac{1}{2004!}', '2^{100}', '\\binom{10}{3}', '\\log_2 n', '\\sin^2 x', '\\lfloor x \\rfloor', '5.1 \\times 10^{3}',
  '\\sum_{k=1}^{10} k^2', 'a_n = 2^n', 'e^{i\\pi}', '3:4', '\\mathbb{R} \\setminus \\{0\\}', '\\emptyset', 'x \\in [1, 2]', '4 \\text{ and } 9',
]; // prettier-ignore

const PIECES = [
  ...'0123456789xyznie+-*/^_=<>!,;:.()[]{}|&%$\'"~# \n\t', '\\', '\\\\', '\\{', '\\}', '\\,', '\\!', '\\ ', '\\%', '\\$', '\\frac', '\\frac{',
  '\\sqrt', '\\sqrt[', '\\left', '\\right', '\\left(', '\\right)', '\\pi', '\\infty', '\\pm', '\\cup', '\\cap', '\\setminus', '\\in', '\\le', '\\ge',
  '\\ne', '\\approx', '\\text{', '\\mathrm{', '\\text{ and }', '\\boxed{', '\\boxed', '\\fbox{', '\\begin{pmatrix}', '\\end{pmatrix}', '\\begin{array}{cc}',
  '\\begin{cases}', '\\sum_{k=1}^{', '\\prod_{k=', '\\int', '\\lim', '\\log_', '\\sin', '\\cos^{-1}', '\\binom', '\\lfloor', '\\rfloor', '\\mathbb{', '\\circ',
  '^\\circ', '{,}', 'sqrt(', 'and', 'or', ' cm', ' percent', '9999999999', '0.000001', '1e9', '10^{10^{10}}', '!', '!!', 'answer: ', 'final answer is ',
  '</think>', '<think>', '$$', '\\[', '\\]', '\\(', '\\)', '√', 'π', '²', '½', '∞', '\ud800', '\u0000', '－', 'é',
]; // prettier-ignore

/** @param {() => number} random */
function soup(random) {
  const length = 1 + Math.floor(random() ** 3 * 60);
  return Array.from({ length }, () => pick(random, PIECES)).join('');
}

/** @param {() => number} random @param {string} text @param {readonly string[]} words */
function mutated(random, text, words = PIECES) {
  let result = text;
  for (let n = 1 + Math.floor(random() * 4); n > 0; n--) {
    const at = Math.floor(random() * (result.length + 1));
    const end = Math.min(result.length, at + 1 + Math.floor(random() * 4));
    const kind = Math.floor(random() * 6);
    if (kind === 0) result = result.slice(0, at) + pick(random, words) + result.slice(at);
    else if (kind === 1) result = result.slice(0, at) + result.slice(end);
    else if (kind === 2) result = result.slice(0, at) + pick(random, SEEDS) + result.slice(end);
    else if (kind === 3) result = `${pick(random, words)}${result}${pick(random, words)}`;
    else if (kind === 4)
      result =
        result.slice(0, at) +
        result.slice(at, end).repeat(1 + Math.floor(random() ** 4 * 200)) +
        result.slice(end);
    else result = result.slice(0, 1 + Math.floor(random() * result.length));
  }
  return result;
}

/** @param {() => number} random */
const answer = (random) => (random() < 0.3 ? soup(random) : mutated(random, pick(random, SEEDS)));

/** @type {('math-verify' | 'trl')[]} */
const PRESETS = ['math-verify', 'math-verify', 'trl'];

/** @param {() => number} random */
function randomCase(random) {
  const gold = random() < 0.5 ? pick(random, SEEDS) : answer(random);
  const kind = random();
  const pred = kind < 0.15 ? gold : answer(random);
  const completion =
    kind > 0.9
      ? pred
      : `${random() < 0.2 ? soup(random) : 'So '}\\boxed{${pred}}${random() < 0.1 ? soup(random) : ''}`;
  return {
    gold,
    completion,
    options: { preset: pick(random, PRESETS), strict: random() < 0.9, allowSetRelationComp: random() < 0.1 },
  };
}

/**
 * Case number `index`: a reference, a completion and options.
 * @param {number} index
 */
function fuzzCase(index) {
  const random = randomFrom(index + 1);
  for (let i = 0; i < 4; i++) random();
  return randomCase(random);
}

/** A case as the bytes of an input. @param {ReturnType<typeof randomCase>} given */
function inputOf({ gold, completion, options: { preset, strict, allowSetRelationComp } }) {
  return together(gold, completion, `${preset} ${strict} ${allowSetRelationComp}`);
}

/** @param {Buffer} bytes @returns {ReturnType<typeof randomCase>} */
function caseOf(bytes) {
  const [gold = '', completion = '', options = ''] = parts(bytes).map(String);
  const [preset, strict, allowSetRelationComp] = options.split(' ');
  return {
    gold,
    completion,
    options: {
      preset: preset === 'trl' ? 'trl' : 'math-verify',
      strict: strict !== 'false',
      allowSetRelationComp: allowSetRelationComp === 'true',
    },
  };
}

const seeds = () =>
  Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`case-${n}`, inputOf(fuzzCase(n))]));

/**
 * A changed case, or one in five times a new one.
 * @param {() => number} random
 * @param {Buffer} bytes
 * @param {Buffer} other
 * @param {readonly string[]} words of the code
 */
function mutate(random, bytes, other, words) {
  if (random() < 0.2) return inputOf(randomCase(random));
  const given = caseOf(bytes);
  const pieces = words.length > 0 && random() < 0.3 ? words : PIECES;
  const what = random();
  if (what < 0.4) given.completion = mutated(random, given.completion, pieces);
  else if (what < 0.75) given.gold = mutated(random, given.gold, pieces);
  else if (what < 0.85) given.completion = `\\boxed{${given.gold}}`;
  else if (what < 0.95) given.gold = caseOf(other).gold;
  else given.options = randomCase(random).options;
  return inputOf({
    ...given,
    gold: given.gold.slice(0, 20_000),
    completion: given.completion.slice(0, 20_000),
  });
}

const STATUSES = new Set(['correct', 'incorrect', 'unparseable', 'timeout', 'gold-unparseable']);

/** Whether `text` can stand in a box and be the whole answer. @param {string} text */
function fitsInBox(text) {
  let depth = 0;
  for (const [piece] of text.matchAll(/\\[^]|[{}]/g)) {
    if (piece === '{') depth++;
    if (piece === '}' && --depth < 0) return false;
  }
  return depth === 0 && !/\\\s*$|boxed|fbox|think/.test(text);
}

/**
 * Throws unless there is a verdict, and the same one again, and the reference equals itself.
 * @param {any} verify the verifier's module
 * @param {Buffer} bytes
 */
function judge(verify, bytes) {
  const { gold, completion, options } = caseOf(bytes);
  const verdict = verify.verifyAnswer(gold, completion, options);
  if (!STATUSES.has(verdict.status) || verdict.correct !== (verdict.status === 'correct'))
    throw new Error(`status ${verdict.status}`);
  const again = verify.verifyAnswer(gold, completion, options);
  if (JSON.stringify(again) !== JSON.stringify(verdict))
    throw new Error('a different verdict the second time');
  if (!fitsInBox(gold)) return;
  const itself = verify.verifyAnswer(gold, `\\boxed{${gold}}`).status;
  if (!['correct', 'gold-unparseable', 'timeout'].includes(itself))
    throw new Error(`the reference in a box is ${itself}`);
}

module.exports = { SEEDS, fuzzCase, judge, mutate, seeds };
