/** Verdicts on completions. Nothing here throws or performs input or output. */
import type { Thinking, Verdict } from '../types';
import { answerRegion, lastBoxed } from './boxed';
import { normalise, sameAnswer } from './compare';

/**
 * The answer is the last complete `\boxed{}` after the first `</think>`, or of the whole text when there is no
 * `</think>`. No such box, or an empty one: `unparseable`. An empty reference: `gold-unparseable`.
 */
export function verifyCompletion(text: string, gold: string): Verdict {
  const reference = lastBoxed(gold) ?? gold;
  const extracted = lastBoxed(answerRegion(text));
  if (normalise(reference) === '') return { correct: false, status: 'gold-unparseable', extracted };
  if (extracted === null || normalise(extracted) === '') {
    return { correct: false, status: 'unparseable', extracted };
  }
  const correct = sameAnswer(reference, extracted);
  return { correct, status: correct ? 'correct' : 'incorrect', extracted };
}

/** The format reward's condition: thinking was closed and a complete `\boxed{}` stands somewhere in the text. */
export function hasFormat(text: string, thinking: Pick<Thinking, 'thinkingClosed'>): boolean {
  return thinking.thinkingClosed && lastBoxed(text) !== null;
}
