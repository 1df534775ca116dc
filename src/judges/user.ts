/** A judge of the user's: a function, in this process or in the thread of a module. */
import { isPromise, type Work } from '../base/deadline';
import { badUsage } from '../base/errors';
import { isRecord, shownJson } from '../base/json';
import type { Problem, Row, Thinking, Verdict } from '../base/types';
import { answerText } from './answer';
import { verdictOf, type Judge, type JudgedCompletion } from './types';

/** A completion as a judge of the user's sees it. */
export type UserCompletion = Thinking & {
  /** The whole completion, thinking included. */
  text: string;
  /** What follows the thinking; empty if the thinking never ended. */
  answer: string;
};

/** A problem with every column of its row. */
export type UserProblem = Problem & {
  /** Empty for generated data. */
  row: Row;
};

/** `extracted` is the answer found, for tables and pages. */
export type UserVerdict = boolean | { correct: boolean; extracted?: string | null };

export type JudgeParameters = Readonly<Record<string, unknown>>;

/** Whether a completion solves a problem. May be async; `params` are `judgeParams`. */
export type JudgeFunction = (
  completion: UserCompletion,
  problem: UserProblem,
  params: JudgeParameters,
) => Work<UserVerdict>;

/** A copy that a function of the user's may write into. */
export function copiedProblem(problem: Problem): Problem {
  // Spread first: a row may be parsed anew each time it is asked for.
  const copy = { ...problem };
  if (copy.grading) copy.grading = { ...copy.grading };
  if (copy.row) copy.row = structuredClone(copy.row);
  return copy;
}

/** What the function is given: copies, so that the run keeps its own. */
export function userCall(
  { text, thinkOpened, thinkingTokens, thinkingClosed }: JudgedCompletion,
  problem: Problem,
): [UserCompletion, UserProblem] {
  const answer = answerText({ text, thinkOpened, thinkingTokens, thinkingClosed }) ?? '';
  const copy = copiedProblem(problem);
  return [
    { text, answer, thinkingTokens, thinkingClosed },
    { ...copy, row: copy.row ?? {} },
  ];
}

/** @throws Error for anything that a judge must not return */
export function userVerdict(found: unknown): Verdict {
  if (typeof found === 'boolean') return verdictOf(found, null);
  if (isRecord(found) && typeof found['correct'] === 'boolean') {
    const { correct, extracted = null } = found;
    if (extracted === null || typeof extracted === 'string') return verdictOf(correct, extracted);
  }
  throw new Error(`it returned ${shownJson(found)}, not true, false or { correct, extracted }`);
}

/** A user's judge takes any reference, or none. */
export const ANY_REFERENCE = { needsGold: false, readsGold: () => true };

export function judgeOf(name: string, judge: JudgeFunction, params: JudgeParameters): Judge {
  if (typeof judge !== 'function') {
    throw badUsage(`The judge ${name} must be a function, not ${shownJson(judge)}.`);
  }
  return {
    name,
    ...ANY_REFERENCE,
    verdict(completion, problem) {
      const found = judge(...userCall(completion, problem), params);
      return isPromise<UserVerdict>(found) ? found.then(userVerdict) : userVerdict(found);
    },
  };
}
