/** What the package promises: docs/api.md says of each name what it is for. All else is free to change. */
import './base/needs-node';

export { replay, runVerdict, train, TrainRun } from './train';
export type {
  ReplayOptions,
  ReplayReport,
  RunSummary,
  RunVerdict,
  SamplerMaker,
  Sink,
  SinkMaker,
  TrainEvent,
  TrainOptions,
  TrainSettings,
  TrainStep,
} from './train';
export type { Sampler } from './sampling';
export { sft, type SftOptions } from './sft';
export { METRICS, trackerTag } from './base/metric-names';
export type { StepMetrics } from './base/types';

export { answerProblems, compare, evaluate, report } from './eval';
export type { BootstrapOptions, Comparison, EvalOptions, EvalReport, EvalRow, EvalSummary } from './eval';

export { createEngine, type EngineOptions } from './engine/engine';
export type {
  Decoder,
  Engine,
  GeneratedSequence,
  GenerateRequest,
  Model,
  PackedSequences,
  Policy,
  PolicyOptions,
} from './engine/types';

export { openModel, type ChatModel, type OpenModelOptions } from './chat';

export { registerReward } from './rewards/registry';
export type { RewardDefinition } from './rewards/types';
export type { RewardFunction, UserReward, UserRollout, UserView } from './rewards/user';

export { registerLoss, sumOverTokens } from './losses';
export type { LossBatch, LossDefinition, LossResult, LossSettings, TokenLoss } from './losses';

export { verifyAnswer, verifyCompletion } from '#verify';
export type { Verdict, VerifyOptions } from '#verify';

export { loadDataset, type Dataset, type DatasetSpec } from './data';
export { registerModelFamily, resolveModel, type ModelFamily, type ModelLocation } from './models';
export { loadTokenizer, type Tokenizer } from './tokenizer';
export { PRESETS, readConfigFile, resolveConfig } from './config';
export type { Config, ConfigInput } from './config';
export type { JudgeFunction } from './judges';
export type { Problem } from './base/types';

export { engineDevice, namedDevice, plannedModel, planRun, type Plan, type PlanInput } from './plan';
export { makeReport, writeFigures, type Report, type ReportOptions } from './report';
export { plotLab, runLab, type LabOptions, type LabReport } from './lab';

export { AcoerError, errorCode } from './base/errors';
