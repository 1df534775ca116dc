/** Recorded completions from runs, completion tables and JSON Lines. */
import { statSync } from 'node:fs';
import { AcoerError } from '../errors';
import type { RecordedCompletion } from '../lab';
import { completionTables, readCompletions, RunDirectory, runOfTable, type StoredCompletion } from '../run';
import { badLine, openInput, parseJsonLines, type JsonLine } from './jsonl';

export interface Recordings {
  completions: RecordedCompletion[];
  /** `maxCompletionLength` of the runs the tables lie in; undefined when they lie in none. */
  maxLength: number | undefined;
}

const fromTable = (row: StoredCompletion, source: string): RecordedCompletion => ({
  ...row,
  source,
  // The step's number counts it; a reward is told how many came before.
  step: row.step - 1,
  group: String(row.promptIndex),
  text: row.completion,
});

function wholeNumber(row: Record<string, unknown>, key: string, line: number): number {
  const value = row[key];
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw badLine(
    line,
    `"${key}" must be a whole number of at least 0, not ${JSON.stringify(value) ?? 'missing'}.`,
  );
}

function truth(row: Record<string, unknown>, key: string, line: number, missing?: boolean): boolean {
  const value = row[key] ?? missing;
  if (typeof value === 'boolean') return value;
  throw badLine(line, `"${key}" must be true or false, not ${JSON.stringify(value) ?? 'missing'}.`);
}

function fromLine({ line, value }: JsonLine, source: string): RecordedCompletion {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw badLine(line, 'it must be a JSON object with "step", "group", "correct" and lengths.');
  }
  const row = value as Record<string, unknown>;
  const group = row.group;
  if (typeof group !== 'string' && typeof group !== 'number') {
    throw badLine(line, `"group" must be a name or a number, not ${JSON.stringify(group) ?? 'missing'}.`);
  }
  const thinkingTokens = wholeNumber(row, 'thinkingTokens', line);
  const totalTokens = wholeNumber(row, 'totalTokens', line);
  if (totalTokens < thinkingTokens) {
    throw badLine(line, `"totalTokens" is ${totalTokens}, less than "thinkingTokens", ${thinkingTokens}.`);
  }
  return {
    source,
    step: wholeNumber(row, 'step', line),
    group: String(group),
    correct: truth(row, 'correct', line),
    thinkingTokens,
    totalTokens,
    format: truth(row, 'format', line),
    thinkingClosed: truth(row, 'thinkingClosed', line, true),
  };
}

async function readLines(path: string): Promise<RecordedCompletion[]> {
  const completions: RecordedCompletion[] = [];
  try {
    for await (const line of parseJsonLines(await openInput(path))) {
      completions.push(fromLine(line, path));
    }
  } catch (cause) {
    // A line's number says little when there are several files.
    if (!(cause instanceof AcoerError) || !cause.message.startsWith('line ')) throw cause;
    throw new AcoerError('BAD_INPUT', `${path === '-' ? 'standard input' : path} ${cause.message}`, {
      cause,
    });
  }
  return completions;
}

/** The limit of a run's completions, from its configuration. */
function limitOf(runPath: string): number | undefined {
  const run = new RunDirectory(runPath);
  const { maxCompletionLength } = run.readJson(run.config()) as { maxCompletionLength?: unknown };
  return typeof maxCompletionLength === 'number' ? maxCompletionLength : undefined;
}

function tablesOf(path: string): string[] | null {
  if (path.endsWith('.parquet')) return [path];
  return path !== '-' && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
    ? completionTables(path)
    : null;
}

/** Reads every file; groups of different runs never meet. @throws BAD_INPUT naming the file and the line */
export async function readRecordings(paths: readonly string[]): Promise<Recordings> {
  const completions: RecordedCompletion[] = [];
  const limits: number[] = [];
  for (const path of paths) {
    const tables = tablesOf(path);
    if (tables === null) {
      completions.push(...(await readLines(path)));
      continue;
    }
    const run = runOfTable(tables[0]!);
    for (const table of tables) {
      for (const row of await readCompletions(table)) completions.push(fromTable(row, run ?? table));
    }
    const limit = run === null ? undefined : limitOf(run);
    if (limit !== undefined) limits.push(limit);
  }
  if (completions.length === 0) {
    throw new AcoerError('BAD_INPUT', `${paths.join(', ')}: there are no recorded completions.`);
  }
  return { completions, maxLength: limits.length === 0 ? undefined : Math.max(...limits) };
}
