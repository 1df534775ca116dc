/**
 * Arithmetic and short word problems of levels 1 to 5. Each has its answer, and the steps that lead to it:
 * `say` states a step, `check` finds its result again in another way.
 */

import { pick } from '../lib/random.cjs';

/** @typedef {{ say: string, check: string }} Step */
/** @typedef {{ level: number, problem: string, answer: number, steps: Step[] }} Problem */

const NAMES = [
  'Anna',
  'Ben',
  'Carla',
  'David',
  'Emma',
  'Felix',
  'Gina',
  'Hugo',
  'Ines',
  'Jonas',
  'Lena',
  'Marco',
];
const THINGS = [
  'apples',
  'books',
  'cards',
  'coins',
  'eggs',
  'marbles',
  'pencils',
  'shells',
  'stamps',
  'stickers',
];
const BOXES = ['bags', 'boxes', 'baskets', 'jars', 'packs', 'trays'];

/** Whole numbers from `low` to `high`, both included, and choices, from a uniform stream. */
export const drawsOf = (uniform) => {
  const number = (low, high) => low + Math.floor(uniform() * (high - low + 1));
  const choice = (list) => pick(uniform, list);
  return { number, choice, chance: (probability) => uniform() < probability };
};

/** @returns {Step} */
function sum(a, b) {
  const [tens, ones] = [b - (b % 10), b % 10];
  const say =
    tens > 0 && ones > 0
      ? `${a} + ${b}: ${a} + ${tens} = ${a + tens}, and ${a + tens} + ${ones} = ${a + b}.`
      : `${a} + ${b} = ${a + b}.`;
  return { say, check: `${a + b} - ${b} = ${a}.` };
}

/** @returns {Step} */
function difference(a, b) {
  const [tens, ones] = [b - (b % 10), b % 10];
  const say =
    tens > 0 && ones > 0
      ? `${a} - ${b}: ${a} - ${tens} = ${a - tens}, and ${a - tens} - ${ones} = ${a - b}.`
      : `${a} - ${b} = ${a - b}.`;
  return { say, check: `${a - b} + ${b} = ${a}.` };
}

/** @returns {Step} for a factor `b` below 10 */
function product(a, b) {
  const [tens, ones] = [a - (a % 10), a % 10];
  const say =
    tens > 0 && ones > 0
      ? `${a} * ${b}: ${tens} * ${b} = ${tens * b}, ${ones} * ${b} = ${ones * b}, and ${tens * b} + ${ones * b} = ${a * b}.`
      : `${a} * ${b} = ${a * b}.`;
  return { say, check: `${b} * ${a} = ${a * b}.` };
}

/** Level 1: one sum or difference. */
function one({ number, chance }) {
  const [a, b] = [number(11, 89), number(3, 60)];
  if (chance(0.5)) return { problem: `What is ${a} + ${b}?`, answer: a + b, steps: [sum(a, b)] };
  const [high, low] = [Math.max(a, b) + 1, Math.min(a, b)];
  return { problem: `What is ${high} - ${low}?`, answer: high - low, steps: [difference(high, low)] };
}

/** Level 2: a product, or three terms. */
function two({ number, chance }) {
  const [a, b, c] = [number(12, 79), number(3, 9), number(4, 39)];
  if (chance(0.5)) return { problem: `What is ${a} * ${b}?`, answer: a * b, steps: [product(a, b)] };
  const steps = [sum(a, c), difference(a + c, b)];
  return { problem: `What is ${a} + ${c} - ${b}?`, answer: a + c - b, steps };
}

/** Level 3: two steps in words. */
function three({ number, choice }) {
  const [name, other, thing] = [choice(NAMES.slice(0, 6)), choice(NAMES.slice(6)), choice(THINGS)];
  const [has, gives, gets] = [number(20, 60), number(3, 18), number(4, 30)];
  return {
    problem: `${name} has ${has} ${thing}. ${name} gives ${gives} to ${other} and then buys ${gets} more. How many ${thing} does ${name} have now?`,
    answer: has - gives + gets,
    steps: [difference(has, gives), sum(has - gives, gets)],
  };
}

/** Level 4: a product in words, and what is added or taken away. */
function four({ number, choice, chance }) {
  const [name, thing, box] = [choice(NAMES), choice(THINGS), choice(BOXES)];
  const [each, boxes, rest] = [number(12, 35), number(3, 9), number(4, 30)];
  const packed = `${name} has ${boxes} ${box} with ${each} ${thing} in each`;
  if (chance(0.5)) {
    return {
      problem: `${packed} and ${rest} ${thing} beside them. How many ${thing} are there in all?`,
      answer: each * boxes + rest,
      steps: [product(each, boxes), sum(each * boxes, rest)],
    };
  }
  return {
    problem: `${packed}. ${rest} of the ${thing} are sold. How many ${thing} are left?`,
    answer: each * boxes - rest,
    steps: [product(each, boxes), difference(each * boxes, rest)],
  };
}

/** Level 5: two products in words, and their sum or difference. */
function five({ number, choice, chance }) {
  const [name, other, thing] = [choice(NAMES.slice(0, 6)), choice(NAMES.slice(6)), choice(THINGS)];
  const [a, m, b, n] = [number(12, 29), number(4, 9), number(11, 19), number(2, 4)];
  const given = `${name} collects ${a} ${thing} a day for ${m} days, and ${other} collects ${b} a day for ${n} days.`;
  const steps = [product(a, m), product(b, n)];
  if (chance(0.5)) {
    return {
      problem: `${given} How many ${thing} do they have together?`,
      answer: a * m + b * n,
      steps: [...steps, sum(a * m, b * n)],
    };
  }
  return {
    problem: `${given} How many more does ${name} have than ${other}?`,
    answer: a * m - b * n,
    steps: [...steps, difference(a * m, b * n)],
  };
}

const LEVELS = [one, two, three, four, five];

/** @returns {Problem} */
export function problemOf(level, draws) {
  for (;;) {
    const found = LEVELS[level - 1](draws);
    if (found.answer > 0) return { level, ...found };
  }
}

const OPENINGS = ['Let me think step by step.', 'Okay, one step at a time.', 'I will take this slowly.'];
const DOUBTS = ['Wait, let me check.', 'Hmm, is that right?', 'Let me make sure.'];
const SECOND = ['To be sure, I do it all once more.', 'Let me go through it again.'];

/**
 * A long way to the answer: each step is stated, most are checked, and often all is done again.
 * @param {Problem} problem
 */
export function verboseTrace({ problem, answer, steps }, { choice, chance }) {
  const lines = [choice(OPENINGS)];
  if (chance(0.2)) lines.push(`The question is: ${problem}`);
  for (const { say, check } of steps) {
    lines.push(say);
    if (chance(0.7)) lines.push(`${choice(DOUBTS)} ${check}`);
  }
  if (chance(0.4)) {
    lines.push(choice(SECOND));
    for (const { say } of steps) lines.push(say);
    lines.push(`Both times I get ${answer}.`);
  }
  lines.push(`So the answer is ${answer}.`);
  return `<think>\n${lines.join('\n')}\n</think>\n\n\\boxed{${answer}}`;
}
