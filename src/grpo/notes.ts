/** What rewards note besides their values: columns of the tables of completions, and numbers for metrics.jsonl. */
import { shownValue } from '../base/border';
import { isRecord } from '../base/json';
import { mean } from '../base/statistics';
import { TABLE_COLUMNS } from '../base/table-columns';
import type { RewardScore } from '../rewards/types';
import type { ColumnValue } from '../base/types';

/** A reward that makes up a name for each completion would make a column of each. */
const MOST_NAMES = 64;
const NAME = /^[\p{L}\p{N}_][\p{L}\p{N}_ ./-]{0,63}$/u;
const TAKEN: ReadonlySet<string> = new Set([...TABLE_COLUMNS, 'format']);

const isColumnValue = (value: unknown): value is ColumnValue =>
  value === null || ['string', 'number', 'boolean'].includes(typeof value);

function nameFault(kind: string, names: readonly string[]): string | null {
  if (names.length > MOST_NAMES) return `has ${names.length} ${kind}s; at most ${MOST_NAMES} are allowed`;
  const wrong = names.find((name) => !NAME.test(name) || name in {});
  if (wrong === undefined) return null;
  return `names a ${kind} ${shownValue(wrong)}; a name has up to 64 letters, digits, spaces and any of _ . / -`;
}

function recordFault(
  kind: string,
  noted: unknown,
  what: string,
  fits: (value: unknown) => boolean,
): string | null {
  if (noted === undefined) return null;
  if (!isRecord(noted)) return `has ${shownValue(noted)} as its ${kind}s, which must be an object`;
  const wrong = Object.entries(noted).find(([, value]) => !fits(value));
  const fault = nameFault(kind, Object.keys(noted));
  if (fault !== null || wrong === undefined) return fault;
  return `has ${shownValue(wrong[1])} as its ${kind} ${shownValue(wrong[0])}, which must be ${what}`;
}

/** What is wrong with the notes of a score. @param rewards the names of the run's rewards, which are columns, too */
export function notesFault({ columns, metrics }: RewardScore, rewards: readonly string[]): string | null {
  const fault =
    recordFault('column', columns, 'text, a number, true, false or null', isColumnValue) ??
    recordFault('metric', metrics, 'a number', (value) => typeof value === 'number');
  const taken = Object.keys(columns ?? {}).find((name) => TAKEN.has(name) || rewards.includes(name));
  if (fault !== null || taken === undefined) return fault;
  return `names a column ${shownValue(taken)}, which the table has already; choose another name`;
}

/** Of one reward: the mean of each number over the completions that have it. Those that are not finite do not count. */
export function meansOf(scores: readonly RewardScore[]): Record<string, number> {
  const values = new Map<string, number[]>();
  for (const [name, value] of scores.flatMap(({ metrics = {} }) => Object.entries(metrics))) {
    if (!Number.isFinite(value)) continue;
    const own = values.get(name) ?? [];
    own.push(value);
    values.set(name, own);
  }
  return Object.fromEntries([...values].map(([name, own]) => [name, mean(own)]));
}

/** The columns of one completion that its rewards noted, and those that two of them did; absent if none. */
export function columnsOf(scores: readonly RewardScore[]): {
  columns?: Readonly<Record<string, ColumnValue>>;
  twice?: string;
} {
  const noted = scores.flatMap(({ columns = {} }) => Object.entries(columns));
  if (noted.length === 0) return {};
  const columns = Object.fromEntries(noted);
  const names = noted.map(([name]) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  return { columns, ...(twice !== undefined && { twice }) };
}
