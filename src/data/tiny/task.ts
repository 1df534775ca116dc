/**
 * The embedded tasks: chains of + and - with single digits, answered modulo 10. Level k has 2k operations, so
 * the level sets the length of an answer that works line by line, and skipping a line costs accuracy.
 */
import { streamSeed } from '../../base/rng';
import type { RandomStream } from '../random';

/** The levels that the embedded model was made with. */
export const TINY_LEVELS = [1, 2, 3, 4, 5] as const;

interface EmbeddedTask {
  levels: readonly number[];
  summary: string;
}

/**
 * By name. `tiny-hard` also has chains longer than any that the embedded model has seen. It answers them at
 * chance, about one in ten, so that many groups have wrong answers alone.
 */
export const EMBEDDED_TASKS: Readonly<Record<string, EmbeddedTask>> = {
  tiny: { levels: TINY_LEVELS, summary: 'the embedded task, for the embedded model' },
  'tiny-hard': {
    levels: [...TINY_LEVELS, 6, 7, 8],
    summary: 'the same with problems that are too hard for it',
  },
};

export const isEmbeddedTask = (name: string): boolean => Object.hasOwn(EMBEDDED_TASKS, name);

export interface Chain {
  level: number;
  /** 0..9 */
  start: number;
  /** -9..9 without 0, each at most once; 2 * level of them. */
  terms: readonly number[];
}

/** -9..9 without 0. */
export function drawTerm(random: RandomStream): number {
  const operand = random.integer(1, 9);
  return random.uniform() < 0.5 ? operand : -operand;
}

/**
 * No term occurs twice in a chain, so the last term of a line tells where in the question to continue, which
 * a small model learns in minutes. With repeated terms it would have to count its lines, which takes far
 * longer.
 */
export function drawChain(random: RandomStream, level: number): Chain {
  const terms: number[] = [];
  while (terms.length < 2 * level) {
    const term = drawTerm(random);
    if (!terms.includes(term)) terms.push(term);
  }
  return { level, start: random.integer(0, 9), terms };
}

export const mod10 = (value: number): number => ((value % 10) + 10) % 10;

/** `+4` or `-4`. */
export const signed = (term: number): string => (term < 0 ? `${term}` : `+${term}`);

/** `6-3-4+7` */
export const expression = (chain: Chain): string => chain.start + chain.terms.map(signed).join('');

export const question = (chain: Chain): string => `${expression(chain)} mod 10?`;

/** Length of the longest question up to a level, in characters. */
export const longestQuestion = (level: number): number =>
  question({ level, start: 0, terms: new Array<number>(2 * level).fill(-9) }).length;

export const answer = (chain: Chain): number =>
  mod10(chain.terms.reduce((sum, term) => sum + term, chain.start));

/** One question in eight is reserved for evaluation and must never be trained on. */
export const isHeldOut = (chain: Chain): boolean => streamSeed(0, question(chain)) % 8n === 0n;

/** The first chain of the stream that belongs to `split`. */
export function drawFrom(random: RandomStream, level: number, split: 'train' | 'eval'): Chain {
  for (;;) {
    const chain = drawChain(random, level);
    if (isHeldOut(chain) === (split === 'eval')) return chain;
  }
}
