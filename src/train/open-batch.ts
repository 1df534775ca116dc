/** Writes a batch with updates left as a checkpoint's tensors and a few numbers, and reads it back. */
import type { Tensor } from '../run';
import { AcoerError } from '../base/errors';
import type { OpenBatch, Sample } from '../grpo/sample';

type Ragged = Int32Array | Float64Array;

/** The arrays of a sample, each with its own length; null where one was not computed. */
const ARRAYS: Record<string, (sample: Sample) => Ragged | null> = {
  prompt_ids: (s) => s.promptIds,
  completion_ids: (s) => s.completionIds,
  logprobs: (s) => s.sampledLogprobs,
  entropies: (s) => s.entropies,
  old_logprobs: (s) => s.oldLogprobs,
  ref_logprobs: (s) => s.refLogprobs,
};

/** The fields of a sample that are one number. */
const NUMBERS: Record<string, (sample: Sample) => number> = {
  prompt_index: (s) => s.promptIndex,
  sample: (s) => s.sample,
  reward: (s) => s.reward,
  advantage: (s) => s.advantage,
  masked: (s) => Number(s.masked),
  skipped: (s) => Number(s.skipped),
};

const ABSENT = -1;

function joined(parts: readonly (Ragged | null)[], integers: boolean): Tensor {
  const total = parts.reduce((sum, part) => sum + (part?.length ?? 0), 0);
  const data = integers ? new Int32Array(total) : new Float64Array(total);
  let start = 0;
  for (const part of parts) {
    if (part === null) continue;
    data.set(part, start);
    start += part.length;
  }
  return { shape: [total], data };
}

export function openBatchTensors({ samples }: OpenBatch): Map<string, Tensor> {
  const tensors = new Map<string, Tensor>();
  const shape = [samples.length];
  for (const [name, value] of Object.entries(NUMBERS)) {
    tensors.set(name, { shape, data: Float64Array.from(samples, value) });
  }
  for (const [name, value] of Object.entries(ARRAYS)) {
    const parts = samples.map(value);
    tensors.set(name, joined(parts, name.endsWith('_ids')));
    tensors.set(`${name}.lengths`, {
      shape,
      data: Int32Array.from(parts, (part) => part?.length ?? ABSENT),
    });
  }
  return tensors;
}

/** What `openBatchTensors` leaves out. */
export type OpenBatchNumbers = Omit<OpenBatch, 'samples'>;

const badRollouts = (what: string) => new AcoerError('BAD_INPUT', `The checkpoint's rollouts ${what}.`);

/** Reads tensors by name; each must be as `openBatchTensors` writes it. */
class Stored {
  readonly size: number;

  constructor(private readonly tensors: ReadonlyMap<string, Tensor> | null) {
    this.size = this.data('advantage', Float64Array).length;
  }

  numbers(name: string): Float64Array {
    return this.ofSamples(name, this.data(name, Float64Array));
  }

  /** One part per sample; null for a sample that has none. */
  partsOrNull<Part extends Ragged>(name: string, type: new () => Part): (Part | null)[] {
    const lengths = this.ofSamples(name, this.data(`${name}.lengths`, Int32Array));
    return splitParts(name, this.data(name, type), lengths);
  }

  parts<Part extends Ragged>(name: string, type: new () => Part): Part[] {
    return this.partsOrNull(name, type).map((part) => {
      if (part === null) throw badRollouts(`lack ${name} of a sample`);
      return part;
    });
  }

  private data<Data extends Ragged>(name: string, type: new () => Data): Data {
    const tensor = this.tensors?.get(name);
    if (tensor === undefined) throw badRollouts(`have no ${name}`);
    if (!(tensor.data instanceof type)) throw badRollouts(`have ${name} of another type`);
    return tensor.data;
  }

  private ofSamples<List extends Ragged>(name: string, list: List): List {
    if (list.length === this.size) return list;
    throw badRollouts(`have ${list.length} values of ${name} for ${this.size} samples`);
  }
}

/** @throws BAD_INPUT when a tensor is missing or its lengths do not add up */
export function restoreOpenBatch(
  { tokens, metrics, updatesDone }: OpenBatchNumbers,
  tensors: ReadonlyMap<string, Tensor> | null,
): OpenBatch {
  const stored = new Stored(tensors);
  const [promptIds, completionIds] = [
    stored.parts('prompt_ids', Int32Array),
    stored.parts('completion_ids', Int32Array),
  ];
  const [logprobs, entropies] = [
    stored.parts('logprobs', Float64Array),
    stored.parts('entropies', Float64Array),
  ];
  const old = stored.partsOrNull('old_logprobs', Float64Array);
  const ref = stored.partsOrNull('ref_logprobs', Float64Array);
  const number = Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, stored.numbers(name)]));
  const samples = Array.from(number.advantage!, (advantage, i): Sample => ({
    promptIndex: number.prompt_index![i]!,
    sample: number.sample![i]!,
    promptIds: promptIds[i]!,
    completionIds: completionIds[i]!,
    sampledLogprobs: logprobs[i]!,
    entropies: entropies[i]!,
    reward: number.reward![i]!,
    advantage,
    masked: number.masked![i] === 1,
    skipped: number.skipped![i] === 1,
    oldLogprobs: old[i]!,
    refLogprobs: ref[i]!,
  }));
  return { samples, tokens, metrics, updatesDone };
}

function splitParts<Part extends Ragged>(name: string, flat: Part, lengths: Int32Array): (Part | null)[] {
  let start = 0;
  const parts = Array.from(lengths, (length) => {
    if (length === ABSENT) return null;
    if (length < 0) throw badRollouts(`have ${length} numbers of ${name} for a sample`);
    return flat.slice(start, (start += length)) as Part;
  });
  if (start !== flat.length) throw badRollouts(`have ${flat.length} numbers of ${name}, not ${start}`);
  return parts;
}
