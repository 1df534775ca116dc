/** The library. Everything the commands do is here, typed. */
export { type SamplerMaker, type Sink, type SinkMaker, train, type TrainOptions, TrainRun } from './train';
export { describeNonFinite } from './grpo';
export { replay } from './train';
export type { NonFinite, StepPhase } from './grpo';
export type { BadGradient, Offender, ReplayedMicroBatch, ReplayOptions, ReplayReport } from './train';
export { batchAdvantages, observeBatch, scoreBatch } from './grpo';
export type {
  Advantages,
  AdvantageSettings,
  BatchAdvantages,
  BatchRewards,
  RewardSettings,
  WeightedReward,
} from './grpo';
export type {
  EvalKind,
  EvalPhase,
  Evaluation,
  RunEvaluation,
  RunSummary,
  TrainEvent,
  TrainStep,
} from './train';
export {
  type MonitorCourse,
  type PeakComparison,
  type RunOutcome,
  runVerdict,
  type RunVerdict,
} from './train';
export {
  bareContext,
  initialMonitorState,
  monitorMetrics,
  MONITOR_PRESETS,
  monitorSettings,
  observe as observeHealth,
} from './monitor';
export type {
  Health,
  HealthChange,
  MonitorContext,
  MonitorSettings,
  MonitorState,
  Observation,
} from './monitor';
export { monitorContext, watchRecorded, type Watched, type WatchOptions } from './train';
export type { Rollback } from './run';

export { listRewards, registerReward, resolveReward } from './rewards';
export type {
  BoundReward,
  ObserveView,
  Pressure,
  RewardDefinition,
  RewardFunction,
  RewardParameters,
  RewardScore,
  RewardTaxonomy,
  RewardView,
  UserBatchView,
  UserGroup,
  UserReward,
  UserRollout,
  UserView,
} from './rewards';

export { compositionRow, plotLab, runLab } from './lab';
export type {
  AnswerClass,
  ClassPressure,
  Composition,
  CompositionRow,
  CompositionSweep,
  LabAnswer,
  LabOptions,
  LabReport,
  LabSettings,
  LengthDistribution,
  PairPoint,
  Prediction,
  RecordedCompletion,
  RewardReport,
  SpreadPoint,
  SyntheticSettings,
} from './lab';
export { assertFits, DEVICE_NAMES, engineDevice, namedDevice, plannedModel, planRun } from './plan';
export type {
  Change,
  LengthTrajectory,
  MemoryItem,
  MemoryPlan,
  Plan,
  PlanDevice,
  PlanInput,
  RunTime,
} from './plan';

export { listLosses, registerLoss, sumOverTokens } from './losses';
export type {
  LossBatch,
  LossDefinition,
  LossResult,
  LossSettings,
  NormalizerCounts,
  SequenceMeasures,
  SequenceTokens,
  TokenLoss,
  TokenRule,
  TokenTerm,
} from './losses';

export { createEngine, type EngineOptions } from './engine/engine';
export { TARGET_MODULES } from './engine/types';
export type {
  CallOptions,
  DeviceName,
  Dtype,
  Engine,
  ForwardOptions,
  FullOptions,
  GenerateCallOptions,
  GeneratedSequence,
  GenerateRequest,
  GenerateResult,
  GenerateStats,
  LoraOptions,
  MachineCeilings,
  MemoryReport,
  Model,
  PackedSequences,
  Policy,
  PolicyOptions,
  SamplingOptions,
  StepOptions,
  StepResult,
  TargetModule,
  TokenValues,
} from './engine/types';

export { answerProblems, compare, evaluate, gradeFile, passAtK, report, summarise } from './eval';
export type {
  AnswerPreset,
  AccuracyChange,
  AtK,
  BootstrapOptions,
  Comparison,
  EvalCompletion,
  EvalIntervals,
  EvalOptions,
  EvalReport,
  EvalRow,
  EvalSampling,
  EvalSummary,
  Graded,
  GradeFileOptions,
  Grader,
  Interval,
  LevelReport,
  LevelSummary,
  McNemar,
  PairedFigure,
  PairedTokens,
  TokenMeans,
} from './eval';

export {
  DEFAULT_PROMPT_TEMPLATE,
  loadTokenizer,
  measureCompletion,
  measureThinking,
  renderPrompt,
  renderPrompts,
} from './tokenizer';
export type { ChatOptions, PromptOptions, Tokenizer } from './tokenizer';
export { evalSpec, goldParses, KNOWN_DATASETS, loadDataset, loadRunData, trainSpec } from './data';
export type { ColumnNames, Dataset, DatasetSource, DatasetSpec, KnownDataset, RowReport } from './data';
export { hasFormat, optionsFromConfig, verifyAnswer, verifyCompletion } from './verify';
export type { ExtractionTarget, VerifyOptions } from './verify';
export { type GradingItem, type PoolOptions, VerifierPool } from './grading';
export { configSchema, describeConfig, PRESETS, readConfigFile, resolveConfig } from './config';
export type { Config, ConfigInput, FieldDescription, Preset } from './config';
export { type ModelFamily, type ModelSpec, registerModelFamily } from './models';
export type { Completion, SamplePrompt, Sampler, SampleSettings } from './sampling';
export { resolveModel, TINY_MODEL, type ModelFetchOptions, type ModelLocation } from './models';
export { fetchSnapshot, type FetchOptions, type FetchProgress, type Snapshot } from './hub';
export { AcoerError, errorCode, errorMessage, exitCodeFor, type AcoerErrorCode } from './errors';

export { METRICS, type KnownMetrics, type MetricName } from './metric-names';
export type {
  ChatMessage,
  Group,
  Problem,
  Prompt,
  Reward,
  Rollout,
  StepMetrics,
  Thinking,
  Verdict,
  VerdictStatus,
} from './types';
