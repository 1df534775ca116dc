/** Cutting a set of sequences into forward passes of bounded size. */
import type { PackedSequences } from '../engine/types';

export { packByTokens } from '../plan/pack';

/** One sequence to score or train on. */
export interface Tokens {
  promptIds: Int32Array;
  completionIds: Int32Array;
}

export const sampleTokens = (sample: Tokens) => sample.promptIds.length + sample.completionIds.length;

/** Prompt and completion of each sequence laid end to end. */
export function packSequences(sequences: readonly Tokens[]): PackedSequences {
  const offsets = new Int32Array(sequences.length + 1);
  const promptLengths = new Int32Array(sequences.length);
  sequences.forEach(({ promptIds, completionIds }, i) => {
    offsets[i + 1] = offsets[i]! + promptIds.length + completionIds.length;
    promptLengths[i] = promptIds.length;
  });
  const ids = new Int32Array(offsets[sequences.length]!);
  sequences.forEach(({ promptIds, completionIds }, i) => {
    ids.set(promptIds, offsets[i]!);
    ids.set(completionIds, offsets[i]! + promptIds.length);
  });
  return { ids, offsets, promptLengths };
}

/** One array per sequence, of as many numbers as it has completion tokens, from the flat per-token array. */
export function splitPerToken(flat: Float64Array, sequences: readonly Tokens[]): Float64Array[] {
  let start = 0;
  return sequences.map(({ completionIds }) => flat.slice(start, (start += completionIds.length)));
}

/** The inverse of `splitPerToken`. */
export function joinPerToken(parts: readonly Float64Array[]): Float64Array {
  const flat = new Float64Array(parts.reduce((total, part) => total + part.length, 0));
  let start = 0;
  for (const part of parts) {
    flat.set(part, start);
    start += part.length;
  }
  return flat;
}
