/** Writes a batch with updates left as a checkpoint's tensors and a few numbers, and reads it back. */
import type { Tensor } from '../run';
import { badInput } from '../base/errors';
import { joinArrays } from '../base/packing';
import type { OpenBatch, Sample } from '../grpo/sample';

export type Ragged = Int32Array | Float64Array;
export type RaggedType = typeof Int32Array | typeof Float64Array;

/** The fields of a sample that are one number, or a truth, by the names of their tensors. */
const NUMBERS = {
  prompt_index: 'promptIndex',
  sample: 'sample',
  reward: 'reward',
  advantage: 'advantage',
  masked: 'masked',
  skipped: 'skipped',
} as const;

/** The arrays of a sample, each with its own length; null where one is not known or was not computed. */
const ARRAYS = {
  prompt_ids: { field: 'promptIds', type: Int32Array, optional: false },
  completion_ids: { field: 'completionIds', type: Int32Array, optional: false },
  logprobs: { field: 'sampledLogprobs', type: Float64Array, optional: false },
  entropies: { field: 'entropies', type: Float64Array, optional: true },
  old_logprobs: { field: 'oldLogprobs', type: Float64Array, optional: true },
  ref_logprobs: { field: 'refLogprobs', type: Float64Array, optional: true },
} as const;

const ABSENT = -1;

/** Sets the tensors of arrays that each have a length of their own. */
export function setRagged(
  tensors: Map<string, Tensor>,
  name: string,
  parts: readonly (Ragged | null)[],
  type: RaggedType,
): void {
  tensors.set(name, joined(parts, type));
  const lengths = Int32Array.from(parts, (part) => part?.length ?? ABSENT);
  tensors.set(`${name}.lengths`, { shape: [parts.length], data: lengths });
}

function joined(parts: readonly (Ragged | null)[], type: RaggedType): Tensor {
  const all: readonly Ragged[] = parts.filter((part) => part !== null);
  const data = type === Int32Array ? joinArrays(all, Int32Array) : joinArrays(all, Float64Array);
  return { shape: [data.length], data };
}

export function openBatchTensors({ samples }: OpenBatch): Map<string, Tensor> {
  const tensors = new Map<string, Tensor>();
  const shape = [samples.length];
  for (const [name, field] of Object.entries(NUMBERS)) {
    tensors.set(name, { shape, data: Float64Array.from(samples, (sample) => Number(sample[field])) });
  }
  for (const [name, { field, type }] of Object.entries(ARRAYS)) {
    const parts = samples.map((sample) => sample[field]);
    setRagged(tensors, name, parts, type);
  }
  return tensors;
}

/** What `openBatchTensors` leaves out. */
export type OpenBatchNumbers = Omit<OpenBatch, 'samples'>;

export const badRollouts = (what: string) => badInput(`The checkpoint's rollouts ${what}.`);

/** The parts of each sample; null for one that has none. */
function splitParts(name: string, flat: Ragged, lengths: ArrayLike<number>): (Ragged | null)[] {
  let start = 0;
  const parts = Array.from(lengths, (length) => {
    if (length === ABSENT) return null;
    if (length < 0) throw badRollouts(`have ${length} numbers of ${name} for a sample`);
    return flat.slice(start, (start += length));
  });
  if (start !== flat.length) throw badRollouts(`have ${flat.length} numbers of ${name}, not ${start}`);
  return parts;
}

/** The tensors that hold one number for each of `size` samples, or arrays of them. */
export class StoredSamples {
  constructor(private readonly tensors: ReadonlyMap<string, Tensor> | null) {}

  dataOf(name: string, type: RaggedType): Ragged {
    const data = this.tensors?.get(name)?.data;
    if (data === undefined) throw badRollouts(`have no ${name}`);
    if (!(data instanceof type)) throw badRollouts(`have ${name} of another type`);
    return data;
  }

  numbers(name: string, type: RaggedType, size: number): Ragged {
    const values = this.dataOf(name, type);
    if (values.length === size) return values;
    throw badRollouts(`have ${values.length} values of ${name} for ${size} samples`);
  }

  arrays(name: string, type: RaggedType, size: number): (Ragged | null)[] {
    return splitParts(name, this.dataOf(name, type), this.numbers(`${name}.lengths`, Int32Array, size));
  }
}

/** @throws BAD_INPUT when a tensor is missing or its lengths do not add up */
export function restoreOpenBatch(
  { tokens, metrics, updatesDone }: OpenBatchNumbers,
  tensors: ReadonlyMap<string, Tensor> | null,
): OpenBatch {
  const stored = new StoredSamples(tensors);
  const size = stored.dataOf('advantage', Float64Array).length;
  const fields = new Map<keyof Sample, ArrayLike<unknown>>();
  for (const [name, { field, type, optional }] of Object.entries(ARRAYS)) {
    const parts = stored.arrays(name, type, size);
    if (!optional && parts.includes(null)) throw badRollouts(`lack ${name} of a sample`);
    fields.set(field, parts);
  }
  for (const [name, field] of Object.entries(NUMBERS)) {
    const values = stored.numbers(name, Float64Array, size);
    const isTruth = field === 'masked' || field === 'skipped';
    fields.set(field, isTruth ? Array.from(values, (value) => value === 1) : values);
  }
  const samples = Array.from({ length: size }, (_, i) => {
    const values = [...fields].map(([field, column]) => [field, column[i]]);
    return Object.fromEntries(values) as Sample;
  });
  return { samples, tokens, metrics, updatesDone };
}
