/**
 * The traces that the tiny model is trained on. Each decision in a trace (how many operations to merge in a
 * line, whether to doubt a line, whether to check the whole again) is local, so that training can shorten it
 * step by step. Each pass has its own check phrase: with a single one, greedy decoding would never check.
 */
import type { RandomStream } from '../../src/data/random';
import { type Chain, drawTerm, expression, mod10, signed } from '../../src/data/tiny/task';

export interface TraceStyle {
  /** Weights of 1, 2, 3 and 4 operations on one line. */
  operationsPerLine: readonly number[];
  preamble: number;
  /** Probability of a first and of a second `, wait` after a line. */
  waits: readonly number[];
  /** Probability of a wrong result, which a `, wait` then corrects. */
  slip: number;
  /** Probability of each further pass, and the factors on it for levels 4 and 5. */
  checks: readonly number[];
  longCheckFactors: readonly number[];
  emptyThink: number;
}

/** Arithmetic only, before any chains. */
export interface DrillStyle {
  /** Weights of 1, 2, 3 and 4 operations on one line. */
  operationsPerLine: readonly number[];
  lines: number;
}

/** Teaches the way through a chain: one operation per line, usually one pass, hardly any doubt. */
export const PLAIN: TraceStyle = {
  operationsPerLine: [1],
  preamble: 0.2,
  waits: [0.1, 0.1],
  slip: 0,
  checks: [0.1, 0.1, 0.1],
  longCheckFactors: [1, 1, 1],
  emptyThink: 0,
};

/** Between PLAIN and VERBOSE: doubts and some merged lines, few checks. */
export const DOUBTING: TraceStyle = {
  operationsPerLine: [0.8, 0.12, 0.05, 0.03],
  preamble: 0.5,
  waits: [0.25, 0.2],
  slip: 0.015,
  checks: [0.1, 0.1, 0.1],
  longCheckFactors: [1, 1, 1],
  emptyThink: 0.02,
};

/** How the finished model thinks: at length, with needless doubt and repeated checks. */
export const VERBOSE: TraceStyle = {
  operationsPerLine: [0.92, 0.05, 0.02, 0.01],
  preamble: 0.5,
  waits: [0.25, 0.2],
  slip: 0.015,
  checks: [0.85, 0.75, 0.3],
  longCheckFactors: [0.9, 0.7, 0.3],
  emptyThink: 0.02,
};

const CHECK_PHRASES = ['let me verify.', 'check again.', 'once more.'] as const;

/** `v+a=w`; after a slip, `, wait v+a=w` with the correct w; then needless waits. Returns the text and w. */
function line(random: RandomStream, style: TraceStyle, value: number, terms: readonly number[]) {
  const left = value + terms.map(signed).join('');
  const result = mod10(terms.reduce((sum, term) => sum + term, value));
  const slipped = random.uniform() < style.slip;
  let text = `${left}=${slipped ? mod10(result + random.integer(1, 9)) : result}`;
  if (slipped) text += `, wait ${left}=${result}`;
  for (const chance of style.waits) {
    if (random.uniform() >= chance) break;
    text += `, wait ${left}=${result}`;
  }
  return { text: `${text}\n`, result };
}

/** A line `v+a=w` with random operands. */
export function drawDrillLine(random: RandomStream, style: DrillStyle): string {
  const terms = Array.from({ length: 1 + random.choice(style.operationsPerLine) }, () => drawTerm(random));
  const value = random.integer(0, 9);
  return `${value}${terms.map(signed).join('')}=${mod10(terms.reduce((sum, term) => sum + term, value))}\n`;
}

/** The whole chain once. */
function pass(random: RandomStream, style: TraceStyle, chain: Chain): { text: string; result: number } {
  let text = '';
  let value = chain.start;
  for (let done = 0; done < chain.terms.length;) {
    const wanted = 1 + random.choice(style.operationsPerLine);
    const terms = chain.terms.slice(done, done + wanted);
    const step = line(random, style, value, terms);
    text += step.text;
    value = step.result;
    done += terms.length;
  }
  return { text, result: value };
}

/** The text between prompt and end of turn: `<think>\n...</think>\n\n\boxed{w}`. */
export function drawCompletion(random: RandomStream, style: TraceStyle, chain: Chain): string {
  const final = (trace: string, result: number) => `<think>\n${trace}</think>\n\n\\boxed{${result}}`;
  if (random.uniform() < style.emptyThink) {
    return final('\n', mod10(chain.terms.reduce((sum, term) => sum + term, chain.start)));
  }
  let trace = random.uniform() < style.preamble ? `okay, i need to compute ${expression(chain)}.\n` : '';
  let { text, result } = pass(random, style, chain);
  trace += text;
  for (const [check, phrase] of CHECK_PHRASES.entries()) {
    const factor = chain.level >= 4 ? style.longCheckFactors[check]! : 1;
    if (random.uniform() >= style.checks[check]! * factor) break;
    ({ text, result } = pass(random, style, chain));
    trace += `${phrase}\n${text}`;
  }
  return final(trace, result);
}
