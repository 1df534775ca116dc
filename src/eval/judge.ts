/** Verdict and format of one completion, for any text. */
import { withinTime } from '../deadline';
import type { Grading, Thinking, Verdict } from '../types';
import { type AnswerFrom, hasFormat, verifyCompletion } from '../verify/verify';

export interface Judgement {
  verdict: Verdict;
  format: boolean;
}

/** The verifier stops itself after about ten milliseconds of counted work; this guards against its bugs. */
const LIMIT_MS = 10_000;

/** The most common answer, a whole number at the end: it cannot take long, and a limit costs a thread. */
const PLAIN = /\\boxed\{-?\d{1,15}\}\s*$/;

/** The verdict is `timeout` for a completion on which the verifier does not finish. */
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
