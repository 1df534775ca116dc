/** Joins several data sets, in the order they are named. */
import { sha256 } from '../base/sha256';
import type { RowTally } from './collect';
import type { Dataset, DatasetSource } from './load';

const SEPARATOR = /\s+\+\s+/;

/** Splits a name such as `math + gsm8k`. */
export const partNames = (name: string): string[] => name.trim().split(SEPARATOR);

export const joinNames = (names: readonly string[]): string => names.join(' + ');

function joinTallies<T>(tallies: readonly RowTally<T>[]): RowTally<T> {
  return {
    count: tallies.reduce((sum, { count }) => sum + count, 0),
    examples: tallies.flatMap(({ examples }) => examples),
  };
}

function joinSources(parts: readonly Dataset[]): DatasetSource | undefined {
  const sources = parts.map(({ source }) => source).filter((source) => source !== undefined);
  if (sources.length === 0) return undefined;
  const splits = [...new Set(sources.map(({ split }) => split))];
  const pinned = parts.map(({ name, source }) => source?.pinned ?? name);
  const fingerprints = parts.map(({ name, source }) => source?.fingerprint ?? name);
  return {
    files: sources.flatMap(({ files }) => files),
    split: splits.length === 1 ? splits[0]! : splits.map((split) => split ?? 'file').join(', '),
    pinned: sources.some((source) => source.pinned !== null) ? joinNames(pinned) : null,
    rows: sources.reduce((sum, { rows }) => sum + rows, 0),
    badRows: joinTallies(sources.map(({ badRows }) => badRows)),
    unparsedGold: joinTallies(sources.map(({ unparsedGold }) => unparsedGold)),
    otherLevels: sources.reduce((sum, { otherLevels }) => sum + otherLevels, 0),
    fingerprint: sha256(fingerprints.join('\n')),
  };
}

/** Prefixes problem ids with the name of their part, since each part counts from 0. */
export function joinDatasets(name: string, parts: readonly Dataset[]): Dataset {
  const starts = parts.map((_, i) => parts.slice(0, i).reduce((sum, { size }) => sum + size, 0));
  return {
    name,
    size: parts.reduce((sum, { size }) => sum + size, 0),
    get(index) {
      const i = starts.findLastIndex((start) => start <= index);
      const problem = parts[i]!.get(index - starts[i]!);
      return { ...problem, id: `${parts[i]!.name}/${problem.id}` };
    },
    source: joinSources(parts),
  };
}
