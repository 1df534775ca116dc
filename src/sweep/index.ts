export { badSweep, readSweepFile, type SweepFile } from './file';
export {
  inSlot,
  isSweep,
  readSweep,
  runPath,
  RUNS,
  slotOf,
  type Slot,
  type Sweep,
  type SweepRun,
  type SweepRunState,
} from './folder';
export { measuredSeconds, runNow, type RunNow } from './found';
export {
  hoursLeft,
  metricOf,
  sweepRuns,
  together,
  type Measured,
  type PlannedRun,
  type RunNeeds,
  type Together,
} from './plan';
export { runLog, type AcoerCommand } from './processes';
export { chosenRuns, runSweep, type SweepEnd, type SweepNews, type SweepOptions } from './run';
