/** Verdict and format of one completion, for any text, within a time limit. */
import { late, withinTime, withTimeout, type Work } from '../base/deadline';
import { AcoerError, errorMessage } from '../base/errors';
import type { Problem, Verdict } from '../base/types';
import { BOXED, type FormatRule } from './format';
import { mathJudge } from './math';
import type { Judge, JudgedCompletion } from './types';

export interface Judgement {
  verdict: Verdict;
  format: boolean;
}

/** Judges one completion: a promise if the judge is a user's. */
export type Grade = (completion: JudgedCompletion, problem: Problem) => Work<Judgement>;

/** A built-in judge stops itself after about ten milliseconds of counted work; this guards against its bugs. */
const LIMIT_MS = 10_000;

/** The most common answer, a whole number at the end: it cannot take long, and a limit costs a thread. */
const PLAIN = /\\boxed\{-?\d{1,15}\}\s*$/;

const TIMEOUT: Verdict = { correct: false, status: 'timeout', extracted: null };

/** A judge that neither throws nor waits: one on which it does not finish gets the verdict `timeout`. */
export function gradeBuiltIn(judge: Judge, format: FormatRule, limitMs = LIMIT_MS): Grade {
  const quick = judge.name === 'math' && format.quick;
  return (completion, problem) => {
    const both = (): Judgement => ({
      verdict: judge.verdict(completion, problem) as Verdict,
      format: format.holds(completion),
    });
    if (quick && PLAIN.test(completion.text.slice(-64))) return both();
    return withinTime(limitMs, both)?.value ?? { verdict: TIMEOUT, format: false };
  };
}

/** A judge of the user's. @throws JUDGE_FAILED, naming the problem, when it throws or takes too long */
export function gradeUser(judge: Judge, format: FormatRule, timeoutMs: number): Grade {
  const begun = (completion: JudgedCompletion, problem: Problem): Work<Verdict> => {
    if (judge.keepsTime === true) return judge.verdict(completion, problem);
    const work = withinTime(timeoutMs, () => judge.verdict(completion, problem));
    if (work === null) throw late(timeoutMs);
    return withTimeout(work.value, timeoutMs);
  };
  return async (completion, problem) => {
    try {
      const verdict = await begun(completion, problem);
      const holds = withinTime(LIMIT_MS, () => format.holds(completion));
      return { verdict, format: holds?.value ?? false };
    } catch (cause) {
      const message = `The judge ${judge.name} failed on a completion of problem ${problem.id}: ${errorMessage(cause)}`;
      throw new AcoerError('JUDGE_FAILED', message, { cause });
    }
  };
}

/** The paper's protocol. */
export const gradeMath: Grade = gradeBuiltIn(mathJudge('open-thinking'), BOXED);
