/** A choice of a run's completions that fits into a report, for its browser of completions. */
import { gzipSync } from 'node:zlib';
import { readCompletions, runTables, type StoredCompletion } from '../run';
import { printable } from '../base/printable';
import { opensThinking, questionOf } from '../base/transcript';
import type { RunData } from './run-data';
import type { ShownCompletion, ShownCompletions, ShownProblem } from './shown';

/** A longer text is cut in the middle. */
const LONGEST_TEXT = 40_000;
const MOST_TABLES = 40;

/** The beginning and the end of a long text, and how much is left out between them. */
export function cutMiddle(text: string, longest: number): string {
  if (text.length <= longest) return text;
  const half = Math.floor(longest / 2);
  const left = text.length - 2 * half;
  return `${text.slice(0, half)}\n[... ${left.toLocaleString('en-US')} characters left out ...]\n${text.slice(-half)}`;
}

/** At most `count` of `items`, evenly spread, with the first and the last. */
export function spread<T>(items: readonly T[], count: number): T[] {
  if (items.length <= count) return [...items];
  const at = (i: number) => Math.round((i * (items.length - 1)) / Math.max(1, count - 1));
  return [...new Set(Array.from({ length: count }, (_, i) => at(i)))].map((i) => items[i]!);
}

/** Some of a table's rows: of every problem the shortest and longest correct ones, then wrong ones. */
function chosen(rows: readonly StoredCompletion[], count: number): StoredCompletion[] {
  const byLength = [...rows].sort((a, b) => a.totalTokens - b.totalTokens);
  const right = byLength.filter(({ correct }) => correct);
  const wrong = byLength.filter(({ correct }) => !correct);
  const wrongCount = Math.min(wrong.length, Math.ceil(count / 3));
  return [...spread(right, count - wrongCount), ...spread(wrong, wrongCount)];
}

export interface Source {
  /** Index in the list of runs. */
  run: number;
  from: ShownCompletion['from'];
  rows: StoredCompletion[];
}

/** Everything a report may choose from: training tables spread over the run, and the evaluations' answers. */
async function sourcesOf(runs: readonly RunData[]): Promise<Source[]> {
  const sources: Source[] = [];
  for (const [index, run] of runs.entries()) {
    const last = run.lines.at(-1)?.step ?? 0;
    const tables = runTables(run.directory.path).filter(({ step }) => step <= last);
    const training = tables.filter(({ kind }) => kind === 'training');
    const evaluations = tables.filter(({ kind }) => kind !== 'training');
    for (const { kind, path } of [
      ...spread(training, Math.ceil(MOST_TABLES / runs.length)),
      ...evaluations,
    ]) {
      sources.push({ run: index, from: kind, rows: await readCompletions(path) });
    }
  }
  return sources;
}

/** What the completions of a run are shown with. */
export interface RunTexts {
  name: string;
  promptTemplate: string;
}

/** Of what a reward noted, a page shows this many characters. */
const LONGEST_NOTE = 400;

const shortColumns = (columns: StoredCompletion['columns'] = {}): ShownCompletion['columns'] =>
  Object.fromEntries(
    Object.entries(columns).map(([name, value]) => [
      name,
      typeof value === 'string' ? cutMiddle(value, LONGEST_NOTE) : value,
    ]),
  );

/** Completions as pages show them. */
export function shownCompletions(sources: readonly Source[], runs: readonly RunTexts[]): ShownCompletions {
  const indices = new Map<string, number>();
  const problems: ShownProblem[] = [];
  const problemIndex = ({ problemId, prompt, level, gold }: StoredCompletion, template: string): number => {
    const key = JSON.stringify([problemId, prompt]);
    const known = indices.get(key);
    if (known !== undefined) return known;
    indices.set(key, problems.length);
    problems.push({
      id: problemId,
      level,
      prompt: cutMiddle(questionOf(prompt, template), LONGEST_TEXT),
      gold,
    });
    return problems.length - 1;
  };
  const completions = sources.flatMap(({ run, from, rows }) =>
    rows.map((row): ShownCompletion => {
      const { step, completion, extracted, correct, status, thinkingTokens, totalTokens, finish } = row;
      const { total = null, parts = {}, advantage = null } = row.scored ?? {};
      return {
        run,
        step,
        from,
        problem: problemIndex(row, runs[run]!.promptTemplate),
        text: cutMiddle(completion, LONGEST_TEXT),
        thinkOpened: opensThinking(row.prompt),
        extracted,
        correct,
        status,
        thinkingTokens,
        totalTokens,
        reward: total,
        parts,
        advantage,
        columns: shortColumns(row.columns),
        finish,
      };
    }),
  );
  return { runs: runs.map(({ name }) => name), problems, completions };
}

/** Data for the page's script: JSON, compressed and in letters that HTML leaves alone. */
export function packed(value: unknown): string {
  const json = JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'string' ? printable(part) : part,
  );
  return gzipSync(Buffer.from(json), { level: 9 }).toString('base64');
}

/** Completions whose packed size stays under `budgetBytes`: fewer of each table until they do. */
export async function packedCompletions(
  runs: readonly RunData[],
  budgetBytes: number,
): Promise<{ packed: string; count: number }> {
  const sources = await sourcesOf(runs);
  const texts = runs.map((run) => ({ name: run.name, promptTemplate: run.directory.promptTemplate() }));
  for (let perTable = 64; ; perTable = Math.floor(perTable / 2)) {
    const some = sources.map((source) => ({ ...source, rows: chosen(source.rows, perTable) }));
    const shown = shownCompletions(some, texts);
    const text = packed(shown);
    if (text.length <= budgetBytes || perTable <= 1) return { packed: text, count: shown.completions.length };
  }
}
