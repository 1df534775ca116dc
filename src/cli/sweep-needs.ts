/** What the runs of a sweep need on this machine, and how many of them fit at a time. */
import { availableParallelism } from 'node:os';
import type { Config } from '../config';
import { createEngine } from '../engine/engine';
import type { DeviceName } from '../engine/types';
import { badUsage, errorCode } from '../base/errors';
import { gigabytes } from '../base/text';
import { maximum, sum } from '../base/statistics';
import {
  engineDevice,
  plannedDtype,
  plannedModel,
  planRunPaced,
  shortage,
  stepTotal,
  type PlanDevice,
  type PlannedModel,
} from '../plan';
import { together, type PlannedRun, type RunNeeds, type SweepFile, type Together } from '../sweep';
import { longestLocalPrompt } from '../train';

/** null: the model is not here, and its shape is not known. */
async function localModel(name: string): Promise<PlannedModel | null> {
  try {
    return await plannedModel(name);
  } catch (error) {
    if (errorCode(error) === 'HUB') return null;
    throw error;
  }
}

/** Settings that change neither memory nor time. */
const planKey = ({
  seed: _seed,
  name: _name,
  reward: _reward,
  rewardParams: _params,
  ...config
}: Config): string => JSON.stringify(config);

/** The device with what it can do in `dtype`, if times are wanted. */
async function deviceOf(
  { device }: Config,
  threads: number | null,
  dtype?: Parameters<typeof engineDevice>[1],
) {
  await using engine = await createEngine({ device: device as DeviceName, threads: threads ?? undefined });
  return await engineDevice(engine, dtype);
}

/** Predicts runs, each kind of them once. */
class Needs {
  private readonly known = new Map<string, RunNeeds | null>();

  constructor(
    private readonly device: PlanDevice,
    private readonly signal: AbortSignal,
  ) {}

  /** null: unknown, because the model's shape is. */
  async of({ config }: PlannedRun): Promise<RunNeeds | null> {
    const key = planKey(config);
    if (!this.known.has(key)) this.known.set(key, await this.predict(config));
    return this.known.get(key)!;
  }

  private async predict(config: Config): Promise<RunNeeds | null> {
    const model = await localModel(config.model);
    if (model === null) return null;
    const promptTokens = await longestLocalPrompt(config, model);
    const plan = await planRunPaced({ config, model, device: this.device, promptTokens }, this.signal);
    return {
      bytes: plan.memory.peakBytes,
      hours: plan.time?.hours.expected ?? null,
      stepSeconds: plan.time === null ? null : stepTotal(plan.time.mean.expected),
      shortage: shortage(plan),
    };
  }
}

export interface SweepNeeds {
  together: Together;
  device: PlanDevice;
  /** Of each run, in order; null: unknown. */
  needs: (RunNeeds | null)[];
  /** Of those that run at a time, at most; null: unknown. */
  bytesAtOnce: number | null;
}

/** @throws BAD_CONFIG for a run that does not fit by itself */
function refuseTooLarge(
  { path }: SweepFile,
  runs: readonly PlannedRun[],
  needs: readonly (RunNeeds | null)[],
): void {
  const short = needs.findIndex((one) => one !== null && one.shortage !== null);
  if (short < 0) return;
  throw badUsage(
    `${path}: ${runs[short]!.folder} does not fit into the memory of this machine: ${needs[short]!.shortage}. acoer plan says what to change.`,
  );
}

/** The most that runs need together of which `parallel` run at a time. */
function atOnce(needs: readonly (RunNeeds | null)[], parallel: number): number | null {
  const bytes = needs.map((one) => one?.bytes ?? null).filter((one) => one !== null);
  if (bytes.length < needs.length) return null;
  return sum(bytes.sort((a, b) => b - a).slice(0, parallel));
}

/**
 * How the runs are made on this machine.
 * @param runs those that are left; at least one
 * @param asked how many at a time
 * @param timed also predict times, which measures the device for some seconds
 * @throws BAD_CONFIG if a run, or as many at a time as were asked for, do not fit
 */
export async function sweepNeeds(
  file: SweepFile,
  runs: readonly PlannedRun[],
  asked: 'auto' | number,
  timed: boolean,
  signal: AbortSignal,
): Promise<SweepNeeds> {
  const first = runs[0]!.config;
  const cores = availableParallelism();
  const idle = await deviceOf(first, null);
  const sizes = await allNeeds(new Needs(idle, signal), runs);
  refuseTooLarge(file, runs, sizes);
  const known = sizes.filter((one) => one !== null);
  const largest = known.length < sizes.length ? null : maximum(known.map(({ bytes }) => bytes));
  const shared = together(cores, runs.length, idle.freeBytes, largest, asked);
  const bytesAtOnce = atOnce(sizes, shared.parallel);
  if (bytesAtOnce !== null && bytesAtOnce > idle.freeBytes) {
    throw badUsage(
      `${shared.parallel} runs of ${file.path} at a time need ${gigabytes(bytesAtOnce)}, and ${gigabytes(idle.freeBytes)} is available; use --parallel auto, or fewer.`,
    );
  }
  if (!timed) return { together: shared, device: idle, needs: sizes, bytesAtOnce };
  const model = await localModel(first.model);
  const dtype = model === null ? undefined : plannedDtype(first, model);
  const device = await deviceOf(first, shared.threads, dtype);
  const needs = await allNeeds(new Needs({ ...device, freeBytes: idle.freeBytes }, signal), runs);
  return { together: shared, device, needs, bytesAtOnce };
}

async function allNeeds(needs: Needs, runs: readonly PlannedRun[]): Promise<(RunNeeds | null)[]> {
  const found: (RunNeeds | null)[] = [];
  for (const run of runs) found.push(await needs.of(run));
  return found;
}
