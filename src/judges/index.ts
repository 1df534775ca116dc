/** What decides whether a completion is right: mathematics, the same text, a letter, a pattern, or code of the user's. */
export { answerText } from './answer';
export { formatRuleOf } from './format';
export { type Grade, gradeBuiltIn, gradeMath, gradeUser, type Judgement } from './grade';
export {
  builtInJudge,
  functionJudgeName,
  isJudgeFile,
  isJudgeFunction,
  isUserJudge,
  JUDGES,
  type JudgeSettings,
  referenceRule,
} from './registry';
export type { Judge, JudgedCompletion, ReferenceRule } from './types';
export {
  ANY_REFERENCE,
  copiedProblem,
  type JudgeFunction,
  judgeOf,
  type JudgeParameters,
  userCall,
  type UserCompletion,
  type UserProblem,
  type UserVerdict,
  userVerdict,
} from './user';
