export { readAccepted, type AcceptedChange } from './accepted';
export { temporaryName, writeFileAtomic, writeJsonAtomic } from './atomic';
export { runAdapterConfig, type LoraShape } from './adapter-config';
export {
  findCheckpoint,
  loadTrained,
  openCheckpoint,
  pruneCheckpoints,
  restorePolicy,
  saveCheckpoint,
  STATE,
  type CheckpointContent,
  type StoredCheckpoint,
  weightsFile,
} from './checkpoint';
export { fileSha256 } from './checksums';
export { writeAnswers, writeCompletions, type CompletionRow, type TabledCompletion } from './completions';
export {
  completionTables,
  readCompletions,
  runOfTable,
  type StoredCompletion,
  type StoredReward,
} from './read-completions';
export {
  createRunDirectory,
  discardRunDirectory,
  isSupervised,
  latestRun,
  newRunPath,
  openRunDirectory,
  readJsonFile,
  readRunDirectory,
  RunDirectory,
  type RunState,
} from './directory';
export { openDump, pruneDumps, saveDump } from './dumps';
export { type EvaluationFile, EvaluationFolder, evaluationRows, recordOf } from './evaluation-file';
export { MetricsCsv } from './metrics-csv';
export { lineMetrics, MetricsFile, readAnyMetrics, readMetrics, readSoundMetrics } from './metrics-file';
export { FINAL_IDENTITY, saveFinal, type FinalContent } from './final';
export {
  type CurrentProgress,
  ProgressFile,
  readProgress,
  type RunPhase,
  type RunProgress,
} from './progress';
export { encodeSafetensors, type Tensor } from './safetensors';
export { isFull, PATIENCE, writePatiently, type Patience } from './writing';
export {
  completeRollbacks,
  discardedFile,
  discardedLines,
  readRollbacks,
  recordRollback,
  type Rollback,
} from './rollbacks';
export { copyRunStart, refuseBrokenFork } from './fork';
export {
  EventFile,
  experimentValue,
  histogramValue,
  readEvents,
  scalarValue,
  sessionEndValue,
  sessionStartValue,
  summaryEvent,
  textValue,
  type HparamValue,
  type SummaryValue,
} from './tensorboard';
export { runTables, type EvaluationKind, type RunTable, type TableKind } from './tables';
