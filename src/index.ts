/** The library. Everything the commands do is here, typed. */
export { train, type TrainOptions, TrainRun } from './grpo';
export type { EvalKind, EvalPhase, Evaluation, RunSummary, TrainEvent, TrainStep } from './grpo';

export { listRewards, registerReward, resolveReward } from './rewards';
export type {
  BoundReward,
  ObserveView,
  RewardDefinition,
  RewardFunction,
  RewardScore,
  RewardView,
  UserGroup,
  UserRollout,
} from './rewards';

export { assertFits, DEVICE_NAMES, engineDevice, namedDevice, plannedModel, planRun } from './plan';
export type { Change, LengthTrajectory, MemoryItem, MemoryPlan, Plan, PlanDevice, PlanInput, RunTime } from './plan';

export { createEngine, type EngineOptions } from './engine/engine';
export { TARGET_MODULES } from './engine/types';
export type {
  AccumulateResult,
  CallOptions,
  DeviceName,
  Dtype,
  Engine,
  FullOptions,
  GenerateCallOptions,
  GeneratedSequence,
  GenerateRequest,
  GenerateResult,
  GenerateStats,
  LoraOptions,
  LossSettings,
  LossTypeName,
  MachineCeilings,
  MemoryReport,
  Model,
  PackedSequences,
  Policy,
  PolicyOptions,
  SamplingOptions,
  ScoreResult,
  StepOptions,
  StepResult,
  TargetModule,
  TrainBatch,
} from './engine/types';

export { evaluate, summarise } from './eval';
export type {
  EvalCompletion,
  EvalOptions,
  EvalSampling,
  EvalSummary,
  Graded,
  LevelSummary,
  TokenMeans,
} from './eval';

export { DEFAULT_PROMPT_TEMPLATE, loadTokenizer, measureThinking, renderPrompt } from './tokenizer';
export type { ChatOptions, PromptOptions, Tokenizer } from './tokenizer';
export { loadDataset, type Dataset, type DatasetSpec } from './data';
export { hasFormat, verifyCompletion } from './verify';
export { configSchema, describeConfig, PRESETS, readConfigFile, resolveConfig } from './config';
export type { Config, ConfigInput, FieldDescription, Preset } from './config';
export { resolveModel, TINY_MODEL } from './models';
export { AcoerError, errorCode, errorMessage, exitCodeFor, type AcoerErrorCode } from './errors';

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
