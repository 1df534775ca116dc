/** The paper's protocol (verified boxed answers, lengths in tokens) and all figures computed from it. */
export { bootstrapDraws, type BootstrapOptions, type Interval } from './bootstrap';
export { accuracyChange, type AccuracyChange, pairedInterval, wilsonInterval } from './change';
export { compare, type Comparison, type PairedFigure, type PairedTokens } from './compare';
export {
  answerProblems,
  evaluate,
  type EvalCompletion,
  type EvalOptions,
  type EvalProgress,
  type EvalSampling,
} from './evaluate';
export {
  type AnswerPreset,
  type FileJudge,
  gradeFile,
  type GradeFileOptions,
  type Grader,
} from './grade-file';
export { type EvalReport, report } from './report';
export { answerTogether } from './shared';
export { storedCompletion, storedRow } from './stored';
export { type EvalRow, type EvalSummary, type Graded, summarise } from './summary';
export { passAtK } from './votes';
