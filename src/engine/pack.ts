/** Ragged sequences as the flat arrays the engine takes, and its flat results per sequence again. */
import { AcoerError } from '../errors';
import type { PackedSequences } from './types';

/** A whole sequence; its completion starts at `promptLength`. */
export interface Sequence {
  ids: ArrayLike<number>;
  promptLength: number;
}

/** Lays sequences end to end. Throws BAD_ARGUMENT for ids that are not 32-bit integers. */
export function packSequences(sequences: readonly Sequence[]): PackedSequences {
  const offsets = new Int32Array(sequences.length + 1);
  sequences.forEach(({ ids }, b) => (offsets[b + 1] = offsets[b] + ids.length));
  const ids = new Int32Array(offsets[sequences.length]);
  sequences.forEach((sequence, b) => {
    ids.set(sequence.ids, offsets[b]);
    for (let t = 0; t < sequence.ids.length; t++) {
      // Int32Array rounds and wraps silently; that would train on other tokens than the caller's.
      if (ids[offsets[b] + t] !== sequence.ids[t]) {
        throw new AcoerError(
          'BAD_ARGUMENT',
          `token ${t} of sequence ${b} is ${String(sequence.ids[t])}; token ids are whole numbers`,
        );
      }
    }
  });
  return { ids, offsets, promptLengths: Int32Array.from(sequences, (sequence) => sequence.promptLength) };
}

/** Completion tokens of each sequence. */
export function completionLengths({ offsets, promptLengths }: PackedSequences): number[] {
  return Array.from(promptLengths, (promptLength, b) => offsets[b + 1] - offsets[b] - promptLength);
}

/** One array per sequence of a flat array with one number per completion token. */
export function splitPerToken(sequences: PackedSequences, flat: Float64Array): Float64Array[] {
  let start = 0;
  return completionLengths(sequences).map((length) => flat.slice(start, (start += length)));
}
