/** What a run will need, before it is started: memory by item, slots, time by phase, and what to change. */
import { needObject } from '../base/border';
import type { Config } from '../config';
import type { Dtype } from '../engine/types';
import { badUsage } from '../base/errors';
import { Pace } from '../base/pace';
import { gigabytes } from '../base/text';
import { adviceOf, changesForSpeed, changesToFit, cutToFit, fits, type Change } from './advice';
import { parameterCount, type Adapted } from './cost';
import type { PlanDevice } from './devices';
import { defaultTrajectory, type LengthTrajectory } from './lengths';
import { availableUnder, planMemory, type MemoryPlan } from './memory';
import type { PlannedModel } from './model-shape';
import { planTime, type RunTime } from './time';
import { drawAhead, plannedWork } from './workload';

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
export type { Change } from './advice';
export { assertTrainingFits, planTraining, type TrainingPlan } from './training';

/** Assumed when no data is read: a competition problem in Qwen3's chat template. */
export const DEFAULT_PROMPT_TOKENS = 150;

export interface PlanInput {
  config: Config;
  model: PlannedModel;
  device: PlanDevice;
  /** What the adapter to be trained further adapts. Default: the configuration's modules in every layer. */
  adapted?: readonly Adapted[];
  /** Processes that train together, of which the plan is for one. Default 1. */
  ranks?: number;
  /** Length of the longest prompt. Default: `maxPromptLength`, else 150 tokens. */
  promptTokens?: number;
  /** Default: the paper's lengths, relative to `maxCompletionLength`. */
  lengths?: LengthTrajectory;
}

export interface Plan {
  model: { parameters: number; dtype: Dtype };
  device: PlanDevice;
  /** Processes that train together; memory is that of one, times are the run's. */
  ranks: number;
  promptTokens: number;
  lengths: LengthTrajectory;
  memory: MemoryPlan;
  /** null if the device's rates are unknown. */
  time: RunTime | null;
  fits: boolean;
  /** Changes that make it fit (null: none do), or that make it faster if it fits. */
  changes: Change[] | null;
}

/** The number type a run computes in. */
export function plannedDtype(config: Config, model: PlannedModel): Dtype {
  return config.dtype ?? model.storedDtype;
}

function* planning({ config: asked, model, device: whole, ...given }: PlanInput): Generator<void, Plan> {
  yield* drawAhead(asked);
  const freeBytes = availableUnder(asked.memoryLimitBytes, whole, model);
  const device = { ...whole, freeBytes };
  const promptTokens = given.promptTokens ?? asked.maxPromptLength ?? DEFAULT_PROMPT_TOKENS;
  const { ranks = 1 } = given;
  const lengthsOf = (c: Config): LengthTrajectory =>
    given.lengths ?? defaultTrajectory(c.maxCompletionLength);
  const inputOf = (c: Config) => ({
    model,
    dtype: plannedDtype(c, model),
    kind: device.kind,
    work: plannedWork(c, promptTokens, lengthsOf(c), given),
    availableBytes: device.freeBytes,
    ranks,
  });
  const predict = (c: Config): MemoryPlan => planMemory(inputOf(c));
  const config = cutToFit(asked, freeBytes, predict);
  const memory = predict(config);
  const lengths = lengthsOf(config);
  const fitting = fits(memory, device.freeBytes);
  return {
    model: { parameters: parameterCount(model.shape), dtype: plannedDtype(config, model) },
    device,
    ranks,
    promptTokens,
    lengths,
    memory,
    time: yield* planTime({ ...inputOf(config), config, device, lengths, memory }),
    fits: fitting,
    changes: fitting
      ? changesForSpeed(config, memory, device)
      : changesToFit(asked, device.freeBytes, predict),
  };
}

/** Predicts a run. Pure: reads no file and no device. It takes seconds; `planRunPaced` does not block meanwhile. */
export function planRun(input: PlanInput): Plan {
  needObject('the input of planRun()', input);
  for (const part of ['config', 'model', 'device'] as const) needObject(part, input[part]);
  const work = planning(input);
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}

/** `planRun` in turns of the event loop. @throws the signal's reason when it aborts */
export async function planRunPaced(input: PlanInput, signal?: AbortSignal): Promise<Plan> {
  const work = planning(input);
  const pace = new Pace();
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    await pace.turn();
    signal?.throwIfAborted();
  }
}

/** What the plan needs and what the device has; null if it fits. */
export function shortage({ memory, device, fits: fitting }: Plan): string | null {
  if (fitting) return null;
  const { kv, evaluationKv, peakBytes, peakPhase } = memory;
  if (peakBytes > device.freeBytes) {
    return `it needs ${gigabytes(peakBytes, 2)} (${peakPhase}), but only ${gigabytes(device.freeBytes, 2)} is available`;
  }
  const [what, short] = kv?.slots === 0 ? ['completion', kv] : ['evaluation answer', evaluationKv!];
  return (
    `a full-length ${what} needs ${gigabytes(short.slotBytes, 2)} of KV cache, but ` +
    `the cache is limited to ${gigabytes(short.budgetBytes, 2)}`
  );
}

/** Throws BAD_CONFIG with the numbers and what to change if the plan does not fit. */
export function assertFits(plan: Plan): void {
  const short = shortage(plan);
  if (short === null) return;
  throw badUsage(
    `This run does not fit on ${plan.device.name}: ${short}; ${adviceOf(plan.changes)}. ` +
      'Run acoer plan for details, or add --ignore-plan to start anyway.',
  );
}
