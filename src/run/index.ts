export { writeFileAtomic, writeJsonAtomic } from './atomic';
export { adapterConfig } from './adapter-config';
export { readCheckpointState, restorePolicy, saveAdapter, saveCheckpoint } from './checkpoint';
export { writeCompletions, type CompletionRow } from './completions';
export { completionTables, readCompletions, runOfTable, type StoredCompletion } from './read-completions';
export {
  createRunDirectory,
  discardRunDirectory,
  holdsRun,
  latestRun,
  newRunPath,
  openRunDirectory,
  RunDirectory,
} from './directory';
export { EvaluationFile, type EvaluationRecord, recordOf } from './evaluation-file';
export { MetricsFile, readMetrics } from './metrics-file';
