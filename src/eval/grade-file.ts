/** Grades a file of completions without a model. */
import type { Dataset } from '../data';
import { openRows } from '../data/open';
import { badInput } from '../base/errors';
import { measureThinking, type Tokenizer } from '../tokenizer';
import type { Grade } from '../judges';
import type { Grading, Problem, Row, Verdict } from '../base/types';
import { type FoundRow, type FoundText, GOLD_COLUMNS, UngradedRow, readFileRow } from './file-rows';
import type { EvalRow } from './summary';

/** Grades in bulk, as `VerifierPool` does. */
export interface Grader {
  readonly concurrency: number;
  verify(
    items: readonly {
      gold: string;
      pred: string;
      preset: AnswerPreset;
      grading?: Grading;
      openThinking: 'searched';
    }[],
  ): Promise<Verdict[]>;
}

/** `boxed` is the paper's protocol; the others also accept answers outside a box. */
export type AnswerPreset = 'boxed' | 'last-box' | 'math-verify' | 'trl';

/** A judge other than the verifier. */
export interface FileJudge {
  grade: Grade;
  /** Rows need a reference answer. */
  needsGold: boolean;
}

export interface GradeFileOptions {
  grader: Grader;
  /** Decides instead of `grader` and `preset`. */
  judge?: FileJudge;
  /** Reference answers and levels for files without them, matched by problem id, else by position. */
  dataset?: Dataset | null;
  /** Counts tokens for files without counts; without a tokenizer the length figures are NaN. */
  tokenizer?: Tokenizer | null;
  /** Default `boxed`. */
  preset?: AnswerPreset;
  signal?: AbortSignal;
  onProgress?: (graded: number, correct: number) => void;
}

/** Large enough that the cost of passing a batch to a process is small next to grading it. */
const BATCH = 128;

type Ungraded = Omit<EvalRow, 'verdict'> & { text: string; problem: Problem };

/** Numbers problems in order of first appearance, and the answers to each. */
class Numbering {
  private readonly problems = new Map<string, { index: number; answers: number }>();

  next(key: string): { index: number; sample: number } {
    const problem = this.problems.get(key) ?? { index: this.problems.size, answers: 0 };
    this.problems.set(key, problem);
    return { index: problem.index, sample: problem.answers++ };
  }
}

/** An evaluation's own rows; counted twice, an answer would pass for two samples. */
class Once {
  private readonly rows = new Map<string, number>();

  check({ benchmark, place }: FoundRow, number: number): void {
    if (benchmark === null || place === null) return;
    const { index, sample } = place;
    const key = JSON.stringify([benchmark, index, sample]);
    const before = this.rows.get(key);
    if (before !== undefined) {
      throw new UngradedRow(
        `the answer to prompt_index ${index}, sample ${sample} of ${benchmark} is there already, in row ${before}`,
      );
    }
    this.rows.set(key, number);
  }
}

/** Finds the problem of the benchmark that a row of the file answers. */
class References {
  private readonly byId: Map<string, Problem>;

  constructor(
    private readonly dataset: Dataset | null,
    private readonly needsGold: boolean,
  ) {
    const problems = dataset === null ? [] : Array.from({ length: dataset.size }, (_, i) => dataset.get(i));
    this.byId = new Map(problems.map((problem) => [problem.id, problem]));
  }

  /** @param values the row's own columns, for a problem that no data set knows */
  of(row: FoundRow, index: number, values: Row): Problem {
    const known = this.known(row, index);
    const gold = row.gold ?? known?.gold ?? null;
    if (gold === null && this.needsGold) throw new UngradedRow(this.missing());
    return {
      question: '',
      row: values,
      ...known,
      id: row.id ?? String(index),
      gold,
      level: row.level ?? known?.level ?? null,
    };
  }

  private known({ id }: FoundRow, index: number): Problem | undefined {
    if (this.dataset === null) return undefined;
    const named = id === null ? undefined : this.byId.get(id);
    return named ?? (index < this.dataset.size ? this.dataset.get(index) : undefined);
  }

  private missing(): string {
    return this.dataset === null
      ? `no reference answer found: looked for ${GOLD_COLUMNS.join(', ')}; name the benchmark with --benchmark`
      : `${this.dataset.name} has ${this.dataset.size} problems, but not this one, neither by id nor by position`;
  }
}

/** Lengths counted on the text if the file lacks them, with a stop token unless it was truncated. */
function lengths({ text, ...given }: FoundText, tokenizer: Tokenizer | null) {
  const closed = text.includes('</think>');
  const known = { totalTokens: given.totalTokens ?? NaN, thinkingTokens: given.thinkingTokens ?? NaN };
  if (tokenizer === null || !Object.values(known).some(Number.isNaN))
    return { ...known, thinkingClosed: closed };
  const ids = tokenizer.encode(text);
  const opened = closed && text.indexOf('</think>') < (text + '<think>').indexOf('<think>');
  const { thinkingTokens, thinkingClosed } = measureThinking(ids, tokenizer, opened);
  return {
    totalTokens: given.totalTokens ?? ids.length + Number(given.truncated !== true),
    thinkingTokens: given.thinkingTokens ?? thinkingTokens,
    thinkingClosed,
  };
}

async function* ungraded(
  path: string,
  { dataset, tokenizer, judge }: GradeFileOptions,
): AsyncGenerator<Ungraded> {
  // Read all columns of a Parquet file: which ones matter differs between rows.
  const rows = openRows(path, path, (columns) => columns);
  const references = new References(dataset ?? null, judge?.needsGold ?? true);
  const numbering = new Numbering();
  const once = new Once();
  for await (const row of rows) {
    const fail = (what: string) => badInput(`${path} ${row.unit} ${row.number}: ${what}.`);
    if ('problem' in row) throw fail(row.problem);
    try {
      const found = readFileRow(row.values);
      once.check(found, row.number);
      const key = found.id ?? `\0${row.number}`;
      for (const one of found.texts) {
        const place = found.place ?? numbering.next(key);
        const problem = references.of(found, place.index, row.values);
        const { id: problemId, gold, level } = problem;
        const { truncated, text, outside } = one;
        const counted = { ...lengths(one, tokenizer ?? null), ...outside };
        yield { ...place, problemId, gold, level, truncated, text, problem, ...counted };
      }
    } catch (error) {
      throw error instanceof UngradedRow ? fail(error.message) : error;
    }
  }
}

async function* batches(rows: AsyncIterable<Ungraded>): AsyncGenerator<Ungraded[]> {
  let batch: Ungraded[] = [];
  for await (const row of rows) {
    if (batch.push(row) < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/**
 * A row for each completion in the file, graded again whatever verdicts the file contains. The file is graded
 * while it is read.
 * @throws BAD_INPUT naming the line, and its columns if it has no completion or no reference answer
 */
export async function gradeFile(path: string, options: GradeFileOptions): Promise<EvalRow[]> {
  const { grader, preset = 'boxed', judge: own, signal, onProgress } = options;
  const parts: EvalRow[][] = [];
  const running = new Set<Promise<void>>();
  let [graded, correct] = [0, 0];
  const judge = async (batch: Ungraded[], at: number): Promise<void> => {
    const verdicts =
      own === undefined
        ? await grader.verify(
            batch.map(({ gold, text: pred, problem: { grading } }) => {
              return { gold: gold ?? '', pred, preset, grading, openThinking: 'searched' as const };
            }),
          )
        : await Promise.all(batch.map(async (row) => (await own.grade(row, row.problem)).verdict));
    parts[at] = batch.map(({ text: _, problem: __, ...row }, i) => ({ ...row, verdict: verdicts[i]! }));
    graded += batch.length;
    correct += verdicts.filter((verdict) => verdict.correct).length;
    onProgress?.(graded, correct);
  };
  let position = 0;
  for await (const batch of batches(ungraded(path, options))) {
    signal?.throwIfAborted();
    const work: Promise<void> = judge(batch, position++).then(() => void running.delete(work));
    running.add(work);
    // Two batches per process keep all of them busy and memory flat.
    while (running.size >= 2 * grader.concurrency) await Promise.race(running);
  }
  await Promise.all(running);
  if (graded === 0) throw badInput(`${path} contains no completions.`);
  return parts.flat();
}
