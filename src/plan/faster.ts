/** Which settings to change, and to what, so that a run that fits goes faster. */
import type { Config } from '../config';
import { percent } from '../base/text';
import { KV_PRICE, QUANTISATION_PRICE, type Change } from './advice';
import { fitsNf4, type ModelShape } from './cost';
import type { PlanDevice } from './devices';
import { KV_SHARE_TEXT } from './kv';
import type { MemoryPlan } from './memory';
import type { PlannedWork } from './workload';

/** The KV cache may be advised to fill at most this fraction of the memory. */
const KV_CEILING = 0.9;

/** Training passes are advised in multiples of this many tokens. */
const PASS_STEP = 512;

/** Smaller training passes, if those keep their activations where the configured ones do not. */
function changeForActivations(
  { microBatchTokens }: Config,
  memory: MemoryPlan,
  device: PlanDevice,
): Change[] {
  const to = Math.floor(memory.keptTokens / PASS_STEP) * PASS_STEP;
  // On a CPU a second forward costs less than the smaller products.
  const helps = device.kind === 'cuda' && to >= microBatchTokens / 2 && to < microBatchTokens;
  if (!helps) return [];
  const why = 'passes that keep their activations, so no layer is computed twice';
  return [{ setting: 'microBatchTokens', from: microBatchTokens, to, why }];
}

/** Changes that speed up a run that fits. */
export function changesForSpeed(config: Config, memory: MemoryPlan, device: PlanDevice): Change[] {
  return [...changeForActivations(config, memory, device), ...changeForSlots(config, memory, device)];
}

function changeForSlots(config: Config, memory: MemoryPlan, device: PlanDevice): Change[] {
  const { kv } = memory;
  if (kv === null) return [];
  const { wantedSlots: wanted } = kv;
  if (
    kv.fullSlots >= wanted ||
    kv.fullBudgetBytes + memory.phaseBytes.always > KV_CEILING * device.freeBytes
  ) {
    return [];
  }
  const why = `room for all ${wanted} sequences at full length instead of ${kv.fullSlots}; the default is ${KV_SHARE_TEXT[device.kind]} of the free memory`;
  return [{ setting: 'kvBytes', from: config.kvBytes, to: kv.fullBudgetBytes, why }];
}

/** Less of the run's time than this is not worth a change that has a price. */
const LEAST_SAVED = 0.05;

type Candidate = Pick<Change, 'setting' | 'to' | 'why'>;

/** Settings that are worth their price if the run takes less time; of several values the best. */
function candidates(
  { full, quantization, kvCacheDtype }: Config,
  shape: ModelShape,
  { promptsInFlight, group, maxSlots: slots, served }: PlannedWork,
): Candidate[][] {
  const wanted = promptsInFlight * group;
  const types = fitsNf4(shape) ? (['int8', 'nf4'] as const) : (['int8'] as const);
  const why = 'all sequences in flight decode together';
  return [
    wanted > slots && !served ? [{ setting: 'maxSlots', to: wanted, why }] : [],
    kvCacheDtype === 'auto' ? [{ setting: 'kvCacheDtype', to: 'int8', why: KV_PRICE }] : [],
    quantization === null && !full
      ? types.map((to) => ({ setting: 'quantization', to, why: QUANTISATION_PRICE }))
      : [],
  ];
}

/**
 * Changes on a GPU that each save a part of the run's time as it is expected.
 * @param hoursOf hours of the run with such a configuration; Infinity if it does not fit
 */
export function* changesForTime(
  config: Config,
  shape: ModelShape,
  work: PlannedWork,
  hoursOf: (config: Config) => Generator<void, number>,
): Generator<void, Change[]> {
  const now = yield* hoursOf(config);
  const changes: Change[] = [];
  for (const alternatives of candidates(config, shape, work)) {
    let best: Candidate | null = null;
    let least = (1 - LEAST_SAVED) * now;
    for (const one of alternatives) {
      const hours = yield* hoursOf({ ...config, [one.setting]: one.to });
      if (hours > least) continue;
      [best, least] = [one, hours];
    }
    if (best === null) continue;
    const why = `${percent(1 - least / now, 0)} less time: ${best.why}`;
    changes.push({ ...best, from: config[best.setting], why });
  }
  return changes;
}
