/** Writes the groups in flight as a checkpoint's tensors and a few numbers, and reads them back. */
import { z } from 'zod';
import type { InFlightGroup, InFlightSample } from '../grpo/sample';
import type { Tensor } from '../run';
import { badRollouts, setRagged, StoredSamples } from './open-batch';

const count = z.int().min(0);

export const STORED_IN_FLIGHT = z.array(
  z.looseObject({ promptIndex: count, begun: count, completed: count.nullable() }),
);

export type InFlightNumbers = Omit<InFlightGroup, 'samples'>[];

const FINISHES = ['stop', 'length', 'partial'] as const;
const FINISH = 'in_flight.finish';

/** The arrays of a sample, by the names of their tensors. */
const ARRAYS = {
  'in_flight.ids': { field: 'ids', type: Int32Array },
  'in_flight.logprobs': { field: 'logprobs', type: Float64Array },
  'in_flight.entropies': { field: 'entropies', type: Float64Array },
  'in_flight.versions': { field: 'versions', type: Int32Array },
} as const;

/** What `inFlightTensors` leaves out. */
export const inFlightNumbers = (groups: readonly InFlightGroup[]): InFlightNumbers =>
  groups.map(({ promptIndex, begun, completed }) => ({ promptIndex, begun, completed }));

/** No tensors for no groups. */
export function inFlightTensors(groups: readonly InFlightGroup[]): Map<string, Tensor> {
  const tensors = new Map<string, Tensor>();
  const samples = groups.flatMap((group) => group.samples);
  if (samples.length === 0) return tensors;
  const finishes = Int32Array.from(samples, ({ finish }) => FINISHES.indexOf(finish));
  tensors.set(FINISH, { shape: [samples.length], data: finishes });
  for (const [name, { field, type }] of Object.entries(ARRAYS)) {
    const parts = samples.map((sample) => sample[field]);
    setRagged(tensors, name, parts, type);
  }
  return tensors;
}

/**
 * @param perGroup completions of a group
 * @throws BAD_INPUT when a tensor is missing or does not fit the others
 */
export function restoreInFlight(
  groups: InFlightNumbers,
  tensors: ReadonlyMap<string, Tensor> | null,
  perGroup: number,
): InFlightGroup[] {
  if (groups.length === 0) return [];
  const stored = new StoredSamples(tensors);
  const size = groups.length * perGroup;
  const finishes = Array.from(stored.numbers(FINISH, Int32Array, size), (code) => FINISHES[code]);
  if (finishes.includes(undefined)) throw badRollouts(`have an unknown ${FINISH}`);
  const columns = Object.entries(ARRAYS).map(([name, { field, type }]) => {
    const parts = stored.arrays(name, type, size);
    if (parts.includes(null)) throw badRollouts(`lack ${name} of a sample`);
    return { name, field, parts };
  });
  const samples = finishes.map((finish, i) => {
    const arrays = columns.map(({ field, parts }) => [field, parts[i]]);
    const sample = { ...Object.fromEntries(arrays), finish } as InFlightSample;
    const uneven = columns.find(({ parts }) => parts[i]!.length !== sample.ids.length);
    if (uneven === undefined) return sample;
    throw badRollouts(`have ${sample.ids.length} tokens of a sample and other numbers of ${uneven.name}`);
  });
  return groups.map((group, g) => ({ ...group, samples: samples.slice(g * perGroup, (g + 1) * perGroup) }));
}
