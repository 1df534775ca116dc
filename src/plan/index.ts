/** What a run will need, before it is started. */
export { DEVICE_NAMES, engineDevice, namedDevice, type PlanDevice } from './devices';
export { type LengthTrajectory } from './lengths';
export {
  assertRoomForPrompt,
  plannedModel,
  promptLimit,
  readPlannedModel,
  type PlannedModel,
} from './model-shape';
export { STEP_PHASES, stepTotal, type StepTime } from './time';
export { PHASES } from './memory';
export { marginCaution, marginOf, marginWords } from './margin';
export type { Change } from './advice';
export { assertTrainingFits, planTraining, type TrainingPlan } from './training';
export {
  assertFits,
  DEFAULT_PROMPT_TOKENS,
  plannedDtype,
  planRun,
  planRunPaced,
  shortage,
  type Plan,
  type PlanInput,
} from './run';
export { planTable, TABLE_CARDS, TABLE_MODELS, type PlanTable, type PlanTableCell } from './table';
