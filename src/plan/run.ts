/** What a run will need, before it is started: memory by item, slots, time by phase, and what to change. */
import { needObject } from '../base/border';
import type { Config } from '../config';
import type { Dtype } from '../engine/types';
import { badUsage } from '../base/errors';
import { Pace } from '../base/pace';
import { gigabytes } from '../base/text';
import { adviceOf, changesToFit, cutToFit, fits, type Change } from './advice';
import { fitsNf4, parameterCount, type Adapted, type ModelShape } from './cost';
import type { PlanDevice } from './devices';
import { changesForSpeed, changesForTime } from './faster';
import { defaultTrajectory, type LengthTrajectory } from './lengths';
import { availableUnder, planMemory, type MemoryPlan } from './memory';
import type { PlannedModel } from './model-shape';
import { speculativeStep, type SpeculativeStep } from './speculation';
import { planTime, type RunTime } from './time';
import { drawAhead, plannedWork, type PlannedWork } from './workload';

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
  model: { parameters: number; dtype: Dtype } & Pick<Config, 'quantization' | 'kvCacheDtype'>;
  /** Of a step of the rollouts with all slots taken, as assumed; null: nothing is proposed. */
  speculation: SpeculativeStep | null;
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

function assertNf4(name: string, shape: ModelShape): void {
  if (fitsNf4(shape)) return;
  throw badUsage(
    `quantization: nf4 needs linear layers whose numbers of inputs are multiples of 64, which those of ${name} are not; use int8 or null.`,
  );
}

/** What a run of a configuration needs; of several configurations of one run. */
class Predictions {
  readonly device: PlanDevice;
  readonly promptTokens: number;

  constructor(private readonly input: PlanInput) {
    const { config, model, device } = input;
    this.device = { ...device, freeBytes: availableUnder(config.memoryLimitBytes, device, model) };
    this.promptTokens = input.promptTokens ?? config.maxPromptLength ?? DEFAULT_PROMPT_TOKENS;
  }

  lengths(config: Config): LengthTrajectory {
    return this.input.lengths ?? defaultTrajectory(config.maxCompletionLength);
  }

  work(config: Config): PlannedWork {
    return plannedWork(config, this.promptTokens, this.lengths(config), this.input);
  }

  memory(config: Config): MemoryPlan {
    return planMemory(this.memoryInput(config));
  }

  fits(memory: MemoryPlan): boolean {
    return fits(memory, this.device.freeBytes);
  }

  time(
    config: Config,
    memory: MemoryPlan,
    of: Parameters<typeof planTime>[1] = {},
  ): Generator<void, RunTime | null> {
    const { device } = this;
    const input = { ...this.memoryInput(config), config, device, lengths: this.lengths(config), memory };
    return planTime(input, of);
  }

  /** Expected; Infinity if it does not fit. */
  *hours(config: Config, points?: number): Generator<void, number> {
    const memory = this.memory(config);
    if (!this.fits(memory)) return Infinity;
    const time = yield* this.time(config, memory, { points, limits: false });
    return time!.hours.expected;
  }

  private memoryInput(config: Config) {
    const { model, ranks = 1 } = this.input;
    const { kind, freeBytes } = this.device;
    const dtype = plannedDtype(config, model);
    return { model, dtype, kind, work: this.work(config), availableBytes: freeBytes, ranks };
  }
}

function* predictions(input: PlanInput): Generator<void, Predictions> {
  const { config, model } = input;
  if (config.quantization === 'nf4') assertNf4(config.model, model.shape);
  yield* drawAhead(config);
  return new Predictions(input);
}

function* changesFor(
  { model, config: asked }: PlanInput,
  of: Predictions,
  config: Config,
  { memory, time }: Pick<Plan, 'memory' | 'time'>,
): Generator<void, Change[] | null> {
  const { device } = of;
  if (!of.fits(memory)) return changesToFit(asked, device.freeBytes, (c) => of.memory(c), model.shape);
  const changes = changesForSpeed(config, memory, device);
  if (time === null || device.kind === 'cpu') return changes;
  const forTime = changesForTime(config, model.shape, of.work(config), (c) => of.hours(c, 1));
  return [...changes, ...(yield* forTime)];
}

function* planning(input: PlanInput): Generator<void, Plan> {
  const { config: asked, model, ranks = 1 } = input;
  const of = yield* predictions(input);
  const { device, promptTokens } = of;
  const config = cutToFit(asked, device.freeBytes, (c) => of.memory(c));
  const memory = of.memory(config);
  const time = yield* of.time(config, memory);
  const { quantization, kvCacheDtype, numSpeculativeTokens: proposed } = config;
  const slots = memory.kv?.slots ?? 0;
  const dtype = plannedDtype(config, model);
  return {
    model: { parameters: parameterCount(model.shape), dtype, quantization, kvCacheDtype },
    speculation: proposed === 0 || slots === 0 ? null : speculativeStep(proposed, slots, device.kind),
    device,
    ranks,
    promptTokens,
    lengths: of.lengths(config),
    memory,
    time,
    fits: of.fits(memory),
    changes: yield* changesFor(input, of, config, { memory, time }),
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

async function paced<T>(work: Generator<void, T>, signal?: AbortSignal): Promise<T> {
  const pace = new Pace();
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    await pace.turn();
    signal?.throwIfAborted();
  }
}

/** `planRun` in turns of the event loop. @throws the signal's reason when it aborts */
export const planRunPaced = (input: PlanInput, signal?: AbortSignal): Promise<Plan> =>
  paced(planning(input), signal);

function* outlining(input: PlanInput): Generator<void, { memory: MemoryPlan; hours: number | null }> {
  const of = yield* predictions(input);
  const hours = yield* of.hours(input.config);
  return { memory: of.memory(input.config), hours: hours === Infinity ? null : hours };
}

/** Memory and expected hours (null: it does not fit) only, in turns of the event loop, for a device with known rates. */
export const planOutlinePaced = (input: PlanInput, signal?: AbortSignal) => paced(outlining(input), signal);

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
