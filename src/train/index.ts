export type {
  EvalKind,
  EvalPhase,
  Evaluation,
  RunEvaluation,
  RunSummary,
  TrainEvent,
  TrainStep,
} from '../life/events';
export { type MonitorCourse, type PeakComparison, runVerdict, type RunVerdict } from './verdict';
export type { Sink, SinkMaker } from '../life/sink';
export type { SamplerMaker } from './sampler';
export { onlySettings } from '../life/call';
export { TRAIN_CALL, type TrainOptions, type TrainSettings } from './options';
export { train, TrainRun } from './train';
export { resolveTrainConfig } from './inputs';
export { configHash } from './resume';
export { longestLocalPrompt } from './opened';
export { isStuck } from '../life/watchdog';
export { judgeIdentity, type JudgingSettings, openJudge, type OpenedJudge } from './judging';
export {
  baseModelOf,
  type BaseModel,
  checkBaseModel,
  checkBaseTokenizer,
  loadHashed,
} from '../life/base-model';
export { admitModules, rememberModules } from '../life/modules/named-modules';
export { judgeModule } from '../life/modules/user-modules';
export { openRewardModule } from '../life/modules/reward-module';
export { monitorContext } from './guard';
export { watchRecorded, type WatchOptions } from './recorded';
export { withPublishedNames } from './model-card';
export { readSummary } from './stored-summary';
export { replay, type ReplayOptions, type ReplayReport } from './replay';
