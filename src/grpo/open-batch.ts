/** A batch with updates left to make, as tensors and a few numbers of a checkpoint, and back. */
import type { Tensor } from '../run';
import { AcoerError } from '../errors';
import type { OpenBatch, UpdateSample } from './batch';

type Ragged = Int32Array | Float64Array;

/** What of a sample has a length of its own; null where it was not computed. */
const ARRAYS: Record<string, (sample: UpdateSample) => Ragged | null> = {
  prompt_ids: (s) => s.promptIds,
  completion_ids: (s) => s.completionIds,
  logprobs: (s) => s.rollout.logprobs,
  entropies: (s) => s.rollout.entropies,
  old_logprobs: (s) => s.oldLogprobs,
  ref_logprobs: (s) => s.refLogprobs,
};

/** What of a sample is one number. */
const NUMBERS: Record<string, (sample: UpdateSample) => number> = {
  prompt_index: (s) => s.rollout.prompt.index,
  sample: (s) => s.rollout.sample,
  reward: (s) => s.reward.total,
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

/** @throws BAD_INPUT when a tensor is missing or its lengths do not add up */
export function restoreOpenBatch(
  { tokens, metrics, updatesDone }: OpenBatchNumbers,
  tensors: ReadonlyMap<string, Tensor> | null,
): OpenBatch {
  const data = (name: string) => {
    const tensor = tensors?.get(name);
    if (tensor === undefined) throw new AcoerError('BAD_INPUT', `The checkpoint's rollouts have no ${name}.`);
    return tensor.data;
  };
  const numbers = (name: string) => data(name) as Float64Array;
  const parts = <Part extends Ragged>(name: string) =>
    splitParts(name, data(name) as Part, data(`${name}.lengths`));
  const [promptIds, completionIds] = [parts<Int32Array>('prompt_ids'), parts<Int32Array>('completion_ids')];
  const [logprobs, entropies] = [parts<Float64Array>('logprobs'), parts<Float64Array>('entropies')];
  const [old, ref] = [parts<Float64Array>('old_logprobs'), parts<Float64Array>('ref_logprobs')];
  const samples = Array.from(numbers('advantage'), (advantage, i): UpdateSample => ({
    promptIds: promptIds[i]!,
    completionIds: completionIds[i]!,
    rollout: {
      prompt: { index: numbers('prompt_index')[i]! },
      sample: numbers('sample')[i]!,
      logprobs: logprobs[i]!,
      entropies: entropies[i]!,
    },
    reward: { total: numbers('reward')[i]! },
    advantage,
    masked: numbers('masked')[i] === 1,
    skipped: numbers('skipped')[i] === 1,
    oldLogprobs: old[i]!,
    refLogprobs: ref[i]!,
  }));
  return { samples, tokens, metrics, updatesDone };
}

function splitParts<Part extends Ragged>(
  name: string,
  flat: Part,
  lengths: ArrayLike<number>,
): (Part | null)[] {
  let start = 0;
  const parts = Array.from(lengths, (length) => {
    if (length === ABSENT) return null;
    return flat.slice(start, (start += length)) as Part;
  });
  if (start !== flat.length) {
    throw new AcoerError(
      'BAD_INPUT',
      `The checkpoint's rollouts have ${flat.length} numbers of ${name}, not ${start}.`,
    );
  }
  return parts;
}
