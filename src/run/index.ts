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
export { MetricsFile, readMetrics } from './metrics-file';
export { completeRollbacks, readRollbacks, recordRollback, type Rollback } from './rollbacks';
export { copyRunStart, refuseBrokenFork } from './fork';
