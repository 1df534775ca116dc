/** Reads problems from files, and reports every row that was left out. */
import { createHash } from 'node:crypto';
import { badInput, badUsage } from '../base/errors';
import type { ReferenceRule } from '../judges';
import { Pace } from '../base/pace';
import type { Problem } from '../base/types';
import { ColumnMap, type ColumnNames, type GradingColumns, type RowMap, type RowProblem } from './columns';
import { openRows } from './open';
import { Room } from './room';
import { rowOf, rowText } from './row-text';
import { BadRow, objectRow, type SourceRow } from './rows';

export interface DataFile {
  path: string;
  /** Name of the file in messages. */
  label: string;
}

/** How rows become problems, and which are kept. */
export interface RowOptions {
  /** Columns with unusual names. */
  columns?: ColumnNames;
  /** Reads rows in another way than by `columns`, as `acoer sft` does. */
  rowMap?: RowMap;
  /** Skip rows that cannot be read. Default false: the first one throws. */
  skipBadRows?: boolean;
  /** Leave out problems whose gold answer the judge cannot read; they are counted either way. Default: true for `train`. */
  dropUnparsedGold?: boolean;
  /** What the judge needs of reference answers. Default: the verifier's needs. */
  references?: ReferenceRule;
  /** Keep every column of each row as `problem.row`. Default true. */
  keepRows?: boolean;
  /** Keep only these levels. */
  levels?: readonly string[] | null;
}

/** With every default filled in. */
export interface CollectOptions extends Required<Omit<RowOptions, 'rowMap'>> {
  rowMap?: RowMap;
  /** What the data set says about judging its answers, or null. */
  grading?: GradingColumns | null;
  signal?: AbortSignal;
}

/** The number of rows of a kind, and the first few of them. */
export interface RowTally<T> {
  count: number;
  examples: T[];
}

export interface RowReport {
  /** Number of rows read, including bad ones. */
  rows: number;
  /** Skipped because they cannot be read. */
  badRows: RowTally<string>;
  /** Rows whose gold answer the judge cannot read; `at` gives file and row. */
  unparsedGold: RowTally<{ at: string; gold: string }>;
  /** Left out because of their level. */
  otherLevels: number;
  /** SHA-256 in hex over the kept problems and the columns kept of them, in order: equal fingerprints mean the same data. */
  fingerprint: string;
}

const MAX_EXAMPLES = 20;

function tally<T>(to: RowTally<T>, example: T): void {
  to.count++;
  if (to.examples.length < MAX_EXAMPLES) to.examples.push(example);
}

/** A problem, and its columns as JSON if they are kept. */
type ReadRow = RowProblem & { rowText: string | null };

/** Parsed when it is asked for, and anew each time: most rows are never looked at. */
const withRow = (problem: Problem, text: string): Problem => ({
  ...problem,
  get row() {
    return rowOf(text);
  },
});

class Collector {
  readonly problems: Problem[] = [];
  private readonly ids = new Set<string>();
  private readonly hash = createHash('sha256');
  private readonly report: Omit<RowReport, 'fingerprint'> = {
    rows: 0,
    badRows: { count: 0, examples: [] },
    unparsedGold: { count: 0, examples: [] },
    otherLevels: 0,
  };
  private levelSeen = false;
  private readonly room = new Room();

  constructor(
    private readonly columns: RowMap,
    private readonly options: CollectOptions,
  ) {}

  add(row: SourceRow, at: string): void {
    const ordinal = this.report.rows++;
    const problem = this.read(row, at);
    if (problem === null) return;
    this.levelSeen ||= problem.level !== null;
    const { levels, dropUnparsedGold } = this.options;
    if (levels !== null && (problem.level === null || !levels.includes(problem.level))) {
      this.report.otherLevels++;
      return;
    }
    const { gold } = problem;
    if (gold !== null && !this.options.references.readsGold(gold)) {
      tally(this.report.unparsedGold, { at, gold });
      if (dropUnparsedGold) return;
    }
    this.keep({ ...problem, id: this.uniqueId(problem.id, ordinal) }, at);
  }

  private keep({ rowText: text, ...problem }: ReadRow & { id: string }, at: string): void {
    const { question, before, gold } = problem;
    this.hash.update(`${question}\0${gold ?? ''}\n`);
    if (before !== undefined) this.hash.update(`${JSON.stringify(before)}\n`);
    if (text !== null) this.hash.update(`${text}\n`);
    this.room.take(problem, text, at);
    this.problems.push(text === null ? problem : withRow(problem, text));
  }

  private read(row: SourceRow, at: string): ReadRow | null {
    let bad: string;
    if ('problem' in row) {
      bad = row.problem;
    } else {
      try {
        const problem = this.columns.toProblem(row.values);
        return { ...problem, rowText: this.options.keepRows ? rowText(row.values) : null };
      } catch (error) {
        if (!(error instanceof BadRow)) throw error;
        bad = error.message;
      }
    }
    if (!this.options.skipBadRows) {
      throw badInput(`${at} ${bad}. (Set \`skipBadRows\` to skip such rows.)`);
    }
    tally(this.report.badRows, `${at} ${bad}`);
    return null;
  }

  /** The row's own id, or its number from 0 over all files; a duplicate id gets the number as well. */
  private uniqueId(given: string | null, ordinal: number): string {
    const id = given === null ? String(ordinal) : this.ids.has(given) ? `${given}#${ordinal}` : given;
    this.ids.add(id);
    return id;
  }

  finish(name: string): RowReport {
    const { rows, badRows, unparsedGold, otherLevels } = this.report;
    if (this.problems.length > 0) return { ...this.report, fingerprint: this.hash.digest('hex') };
    const { levels } = this.options;
    if (levels !== null && rows > 0 && !this.levelSeen) {
      throw badUsage(
        `${name} has no levels, so \`levels\` leaves no problems; set the column with columns.level.`,
      );
    }
    const first = unparsedGold.examples[0] ?? badRows.examples[0];
    const example = first === undefined ? '' : `, e.g. ${typeof first === 'string' ? first : first.at}`;
    const why = `${badRows.count} cannot be read, ${otherLevels} are of other levels, ${unparsedGold.count} have a gold answer that the verifier cannot parse`;
    throw badInput(
      rows === 0
        ? `Dataset ${name} has no problems`
        : `Dataset ${name}: none of its ${rows} rows can be used (${why}${example})`,
    );
  }
}

/** Collects rows as they come, each with its place for messages, without blocking the event loop. */
async function collected(
  name: string,
  options: CollectOptions,
  rowsWith: (columns: RowMap) => AsyncGenerator<[row: SourceRow, at: string]>,
): Promise<{ problems: Problem[]; report: RowReport }> {
  const { rowMap, columns: names, grading, references, signal } = options;
  const columns = rowMap ?? new ColumnMap(names, grading ?? null, references.needsGold);
  const collector = new Collector(columns, options);
  const pace = new Pace();
  for await (const [row, at] of rowsWith(columns)) {
    collector.add(row, at);
    await pace.turn();
    signal?.throwIfAborted();
  }
  return { problems: collector.problems, report: collector.finish(name) };
}

/** Reads all rows of `files`, in order. `name` is for messages. */
export const collectProblems = (name: string, files: readonly DataFile[], options: CollectOptions) =>
  collected(name, options, async function* (columns) {
    for (const { path, label } of files) {
      const rows = openRows(path, label, (found) => {
        const wanted = columns.choose(label, found);
        return options.keepRows ? found : wanted;
      });
      for await (const row of rows) yield [row, `${label} ${row.unit} ${row.number}`];
    }
  });

/** The same for rows in memory, which are copied. @throws BAD_INPUT naming the row, from 1 */
export const collectRows = (name: string, rows: readonly unknown[], options: CollectOptions) =>
  collected(name, options, async function* () {
    for (const [index, row] of rows.entries()) {
      yield [objectRow('row', index + 1, row), `${name} row ${index + 1}`];
    }
  });
