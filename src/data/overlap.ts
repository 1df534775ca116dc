/**
 * Contamination: which problems of a benchmark are also in the training data, exactly or nearly.
 *
 * Nearly is a run of 13 words in common, the rule of GPT-3's appendix C (Brown et al., "Language Models are Few-Shot
 * Learners", 2020) and of the language model evaluation harness after it; as there, runs in more than ten training rows
 * are turns of phrase and do not count. A question of fewer words counts if all of it stands in a row; below five words
 * only an equal question does.
 */
import { Pace } from '../base/pace';
import type { Problem } from '../base/types';
import type { Dataset } from './load';

const WORDS = 13;
const FEWEST_WORDS = 5;
const MOST_ROWS = 10;

/** A problem of the benchmark and the first training row that has it. */
export interface Match {
  id: string;
  trainingId: string;
}

export interface Overlap {
  /** Number of the benchmark's problems. */
  problems: number;
  exact: Match[];
  /** Without those of `exact`. */
  near: Match[];
}

/** The text that the model is asked, with the turns before it but for what the system says. */
function questionOf({ question, before = [] }: Problem): string {
  const turns = before.filter(({ role }) => role !== 'system').map(({ content }) => content);
  return [...turns, question].join('\n');
}

/**
 * The words of a question in one form: lower case, without dollar signs, spacing of LaTeX and the punctuation of
 * sentences. Numbers and operators stay, since x + 1 and x - 1 are different problems.
 */
export function plainWords(text: string): string[] {
  return (
    text
      .normalize('NFKC')
      .toLowerCase()
      .replaceAll(/\\(?:left|right|displaystyle|[,;:! ()[\]])/g, ' ')
      .replaceAll(/[‘’`´]/g, "'")
      .replaceAll(/[$"“”]/g, ' ')
      // 5! stays a factorial.
      .replaceAll(/[.,:;?]+(?=\s|$)|(?<=\p{L})!+(?=\s|$)/gu, ' ')
      .split(/\s+/)
      .filter((word) => word !== '')
  );
}

/** Equal for questions that differ in nothing but form and spaces. */
const exactKey = (words: readonly string[]): string =>
  words.join(' ').replaceAll(/ (?![\p{L}\p{N}])|(?<![\p{L}\p{N}]) /gu, '');

/** Runs of `length` words. */
function* runsOf(words: readonly string[], length: number): Generator<string> {
  for (let i = 0; i + length <= words.length; i++) yield words.slice(i, i + length).join(' ');
}

/** The benchmark's questions, to be looked up. */
class Wanted {
  private readonly exact = new Map<string, number[]>();
  /** By number of words, the runs to look for and whose they are. */
  private readonly runs = new Map<number, Map<string, number[]>>();
  private readonly rows = new Map<string, { count: number; first: string }>();
  private readonly found = new Map<number, string>();

  add(index: number, words: readonly string[]): void {
    const key = exactKey(words);
    if (key === '') return;
    this.exact.set(key, [...(this.exact.get(key) ?? []), index]);
    const length = Math.min(WORDS, words.length);
    if (length < FEWEST_WORDS) return;
    const own = this.runs.get(length) ?? new Map<string, number[]>();
    this.runs.set(length, own);
    for (const run of new Set(runsOf(words, length))) own.set(run, [...(own.get(run) ?? []), index]);
  }

  /** Notes what a training row has of them. */
  compare(id: string, words: readonly string[]): void {
    for (const index of this.exact.get(exactKey(words)) ?? [])
      if (!this.found.has(index)) this.found.set(index, id);
    for (const [length, wanted] of this.runs) {
      for (const run of new Set(runsOf(words, length))) {
        if (!wanted.has(run)) continue;
        const before = this.rows.get(run);
        this.rows.set(run, { count: (before?.count ?? 0) + 1, first: before?.first ?? id });
      }
    }
  }

  /** @param ids of the benchmark's problems */
  overlap(ids: readonly string[]): Overlap {
    const near = new Map<number, string>();
    for (const wanted of this.runs.values()) {
      for (const [run, owners] of wanted) {
        const rows = this.rows.get(run);
        if (rows === undefined || rows.count > MOST_ROWS) continue;
        for (const index of owners)
          if (!this.found.has(index) && !near.has(index)) near.set(index, rows.first);
      }
    }
    const matches = (of: Map<number, string>): Match[] =>
      [...of].sort(([a], [b]) => a - b).map(([index, trainingId]) => ({ id: ids[index]!, trainingId }));
    return { problems: ids.length, exact: matches(this.found), near: matches(near) };
  }
}

/** Compares every training row with every problem of the benchmark, without blocking the event loop. */
export async function overlapOf(
  benchmark: Dataset,
  training: Dataset,
  signal?: AbortSignal,
): Promise<Overlap> {
  const wanted = new Wanted();
  const ids: string[] = [];
  const pace = new Pace();
  for (let index = 0; index < benchmark.size; index++) {
    const problem = benchmark.get(index);
    ids.push(problem.id);
    wanted.add(index, plainWords(questionOf(problem)));
    await pace.turn();
  }
  for (let index = 0; index < training.size; index++) {
    const problem = training.get(index);
    wanted.compare(problem.id, plainWords(questionOf(problem)));
    await pace.turn();
    signal?.throwIfAborted();
  }
  return wanted.overlap(ids);
}

/** One line. @param name of the benchmark */
export const overlapText = (name: string, { problems, exact, near }: Overlap): string =>
  `contamination: ${exact.length} of ${problems} problems of ${name} are also in the training data, ${near.length} nearly`;
