/** Verdict and format of one completion, whatever its text. */
import { withinTime } from '../deadline';
import type { Grading, Thinking, Verdict } from '../types';
import { type AnswerFrom, hasFormat, verifyCompletion } from '../verify';

export interface Judgement {
  verdict: Verdict;
  format: boolean;
}

/** The verifier's own limits end it after some ten milliseconds of counted work: this one is for its faults. */
const LIMIT_MS = 10_000;

/** The usual answer, a whole number at the end of the text: nothing in it can take long, and a limit costs a thread. */
const PLAIN = /\\boxed\{-?\d{1,15}\}\s*$/;

/** For a completion that the verifier does not come to an end with the verdict is `timeout`. */
export function judgeCompletion(
  text: string,
  gold: string,
  thinking: Pick<Thinking, 'thinkingClosed'>,
  answerFrom: AnswerFrom = 'answer',
  grading: Grading = {},
  judge = (): Judgement => ({
    verdict: verifyCompletion(text, gold, answerFrom, grading),
    format: hasFormat(text, thinking),
  }),
  limitMs = LIMIT_MS,
): Judgement {
  const verdict: Verdict = { correct: false, status: 'timeout', extracted: null };
  if (PLAIN.test(text.slice(-64))) return judge();
  return withinTime(limitMs, judge)?.value ?? { verdict, format: false };
}
