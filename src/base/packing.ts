/** Packs sequences into the flat arrays that the engine takes, and into passes of bounded size. */
import type { PackedSequences } from '../engine/types';

/** One sequence to score or train on. */
export interface Tokens {
  promptIds: Int32Array;
  completionIds: Int32Array;
}

export const sampleTokens = (sample: Tokens) => sample.promptIds.length + sample.completionIds.length;

/** Neighbouring sequences whose gradients are always added up together. */
export type Run<Sequence extends Tokens> = readonly Sequence[];

export const runTokens = (run: Run<Tokens>) => run.reduce((sum, sequence) => sum + sampleTokens(sequence), 0);

/**
 * Most tokens of a run of several sequences: large enough for its products to cost what those of a larger one do,
 * small enough for a step's runs to be dealt out evenly.
 */
export const RUN_TOKENS = 512;

const samePrompt = ({ promptIds: a }: Tokens, { promptIds: b }: Tokens) =>
  a === b || (a.length === b.length && a.every((id, i) => id === b[i]));

/**
 * Cuts `sequences` into runs: neighbours with the same prompt, at most `budget` tokens of them. A sequence above the
 * budget is a run of its own.
 */
export function runsByTokens<Sequence extends Tokens>(
  sequences: readonly Sequence[],
  budget = RUN_TOKENS,
): Sequence[][] {
  const runs: Sequence[][] = [];
  let tokens = 0;
  for (const sequence of sequences) {
    const last = runs.at(-1);
    tokens += sampleTokens(sequence);
    if (last !== undefined && tokens <= budget && samePrompt(last[0]!, sequence)) {
      last.push(sequence);
      continue;
    }
    runs.push([sequence]);
    tokens = sampleTokens(sequence);
  }
  return runs;
}

/** Each sequence as a run of its own, for passes that are packed as tightly as may be. */
export const apart = <Sequence extends Tokens>(sequences: readonly Sequence[]): Sequence[][] =>
  sequences.map((sequence) => [sequence]);

/** Prompt and completion of each sequence laid end to end. @param runs that make up `sequences`; default: none */
export function packSequences(sequences: readonly Tokens[], runs?: readonly Run<Tokens>[]): PackedSequences {
  const offsets = new Int32Array(sequences.length + 1);
  const promptLengths = new Int32Array(sequences.length);
  sequences.forEach(({ promptIds, completionIds }, i) => {
    offsets[i + 1] = offsets[i]! + promptIds.length + completionIds.length;
    promptLengths[i] = promptIds.length;
  });
  const ids = new Int32Array(offsets[sequences.length]!);
  sequences.forEach(({ promptIds, completionIds }, i) => {
    ids.set(promptIds, offsets[i]);
    ids.set(completionIds, offsets[i]! + promptIds.length);
  });
  if (runs === undefined) return { ids, offsets, promptLengths };
  const starts = new Int32Array(runs.length + 1);
  runs.forEach((run, i) => (starts[i + 1] = starts[i]! + run.length));
  return { ids, offsets, promptLengths, runs: starts };
}

/** Splits a flat per-token array into one array per sequence, with one number per completion token. */
export function splitPerToken(flat: Float64Array, sequences: readonly Tokens[]): Float64Array[] {
  let start = 0;
  return sequences.map(({ completionIds }) => flat.slice(start, (start += completionIds.length)));
}

/** All parts in one array of `type`. */
export function joinArrays<Flat extends Float64Array<ArrayBuffer> | Int32Array<ArrayBuffer>>(
  parts: readonly ArrayLike<number>[],
  type: new (length: number) => Flat,
): Flat {
  const flat = new type(parts.reduce((total, part) => total + part.length, 0));
  let start = 0;
  for (const part of parts) {
    flat.set(part, start);
    start += part.length;
  }
  return flat;
}

/** The inverse of `splitPerToken`. */
export const joinPerToken = (parts: readonly Float64Array[]): Float64Array => joinArrays(parts, Float64Array);

/**
 * Packs the indices of `lengths` into bins of at most `budget` tokens: first-fit decreasing, so that few bins
 * are needed and sequences of similar length share one. A sequence above the budget gets its own bin. Within
 * a bin the order is that of `lengths`, so that the completions of a prompt follow each other.
 */
export function packByTokens(lengths: readonly number[], budget: number): number[][] {
  const order = lengths.map((_, i) => i).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  const bins: { members: number[]; free: number }[] = [];
  for (const index of order) {
    const length = lengths[index]!;
    let bin = bins.find((candidate) => candidate.free >= length);
    if (bin === undefined) bins.push((bin = { members: [], free: budget }));
    bin.members.push(index);
    bin.free -= length;
  }
  return bins.map((bin) => bin.members.sort((a, b) => a - b));
}
