/** Which problems are held out of training when there is no other evaluation data. */
import { Pace } from '../base/pace';
import { sha256 } from '../base/sha256';
import type { Problem } from '../base/types';
import type { Dataset } from './load';

/**
 * A tenth is held out, within these bounds; of a small set up to a quarter. Fewer than `FEWEST` mean nothing.
 */
const SHARE = 0.1;
const SMALL_SHARE = 0.25;
const FEWEST = 4;
const FEW = 8;
const MOST = 1000;

/** Size of the smallest data set that problems are held out of. */
export const SMALLEST = FEWEST / SMALL_SHARE;

/** How many of `problems` problems to hold out; 0 when there are too few. */
export function heldOutCount(problems: number): number {
  if (problems < SMALLEST) return 0;
  const few = Math.min(FEW, Math.floor(SMALL_SHARE * problems));
  return Math.min(MOST, Math.max(few, Math.round(SHARE * problems)));
}

/**
 * Questions that differ only in whitespace are the same. In a conversation the turns before belong to the question;
 * what the system says does not.
 */
function questionKey({ question, before = [] }: Problem): string {
  const turns = before.filter(({ role }) => role !== 'system').map(({ content }) => content);
  return [...turns, question].map((text) => text.trim().replace(/\s+/g, ' ')).join('\n');
}

/** The key of every row's question, without blocking the event loop. */
async function* questionKeys(dataset: Dataset): AsyncGenerator<[index: number, key: string]> {
  const pace = new Pace();
  for (let index = 0; index < dataset.size; index++) {
    yield [index, questionKey(dataset.get(index))];
    await pace.turn();
  }
}

/** The rows of each question by its hash, in the order of `dataset`. */
async function rowsByQuestion(dataset: Dataset): Promise<Map<string, number[]>> {
  const rows = new Map<string, number[]>();
  for await (const [index, key] of questionKeys(dataset)) {
    const hash = sha256(key);
    const known = rows.get(hash);
    if (known === undefined) rows.set(hash, [index]);
    else known.push(index);
  }
  return rows;
}

/** Some rows of a data set, in the given order. The fingerprint covers the whole data set and the choice. */
function chosenRows(dataset: Dataset, rows: readonly number[]): Dataset {
  const { longestQuestion, source } = dataset;
  const fingerprint = () => sha256(`${source!.fingerprint}\n${rows.join(' ')}`);
  return {
    name: dataset.name,
    size: rows.length,
    get: (index) => dataset.get(rows[index]!),
    ...(longestQuestion !== undefined && { longestQuestion }),
    ...(source !== undefined && { source: { ...source, fingerprint: fingerprint() } }),
  };
}

/**
 * The problems of `dataset` to hold out for evaluation, or null when there are too few. The hash of the
 * question decides, so rows with the same question stay together, and the choice does not depend on the seed,
 * on filters or on how many problems are evaluated. They are in hash order, so the first n are a fair sample
 * too.
 */
export async function holdOut(dataset: Dataset): Promise<Dataset | null> {
  const wanted = heldOutCount(dataset.size);
  const questions = [...(await rowsByQuestion(dataset))].sort(([a], [b]) => (a < b ? -1 : 1));
  const held: number[] = [];
  for (const [, rows] of questions) {
    // A question with too many rows stays in training.
    if (held.length + rows.length <= wanted) for (const row of rows) held.push(row);
  }
  return held.length < FEWEST ? null : chosenRows(dataset, held);
}

/** `dataset` without the questions of `evaluated`; itself when they have none in common. */
export async function without(dataset: Dataset, evaluated: Dataset): Promise<Dataset> {
  const keys = new Set<string>();
  for await (const [, key] of questionKeys(evaluated)) keys.add(key);
  const kept: number[] = [];
  for await (const [index, key] of questionKeys(dataset)) if (!keys.has(key)) kept.push(index);
  return kept.length === dataset.size ? dataset : chosenRows(dataset, kept);
}
