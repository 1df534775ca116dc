/** Reads recorded completions from runs, completion tables and JSON Lines. */
import { statSync } from 'node:fs';
import { z } from 'zod';
import { AcoerError, badInput } from '../base/errors';
import type { RecordedCompletion } from '../lab';
import { completionTables, readCompletions, RunDirectory, runOfTable, type StoredCompletion } from '../run';
import { openInput, parseJsonLines } from './jsonl';
import { rewardReader } from './reward-lines';

/** The settings that rewards and advantages were computed with. */
const RUN_SETTINGS = z.object({
  maxCompletionLength: z.number(),
  scaleRewards: z.enum(['group', 'batch', 'none']),
  advantageEpsilon: z.number(),
  formatWeight: z.number(),
});

export type RunSettings = z.infer<typeof RUN_SETTINGS>;

export interface Recordings {
  completions: RecordedCompletion[];
  /** Settings of the runs that the tables belong to. */
  runs: RunSettings[];
}

const fromTable = (row: StoredCompletion, source: string): RecordedCompletion => ({
  ...row,
  source,
  // Rows number steps from 1; a reward expects the number of steps before it.
  step: row.step - 1,
  group: String(row.promptIndex),
  text: row.completion,
});

async function readLines(path: string): Promise<RecordedCompletion[]> {
  const completions: RecordedCompletion[] = [];
  try {
    const check = rewardReader(false);
    for await (const line of parseJsonLines(await openInput(path))) {
      const { given: _, ...completion } = check(line);
      completions.push({ ...completion, source: path });
    }
  } catch (cause) {
    // With several files a line number alone says little.
    if (!(cause instanceof AcoerError) || !cause.message.startsWith('line ')) throw cause;
    throw badInput(`${path === '-' ? 'standard input' : path} ${cause.message}`, cause);
  }
  return completions;
}

/** Settings from a run's configuration; null if another version wrote it. */
function settingsOf(runPath: string): RunSettings | null {
  return RUN_SETTINGS.safeParse(new RunDirectory(runPath).settings()).data ?? null;
}

function tablesOf(path: string): string[] | null {
  if (path.endsWith('.parquet')) return [path];
  return path !== '-' && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
    ? completionTables(path)
    : null;
}

/** Reads every file, keeping groups of different runs apart. @throws BAD_INPUT naming file and line */
export async function readRecordings(paths: readonly string[]): Promise<Recordings> {
  const completions: RecordedCompletion[] = [];
  const runs: RunSettings[] = [];
  for (const path of paths) {
    const tables = tablesOf(path);
    if (tables === null) {
      for (const completion of await readLines(path)) completions.push(completion);
      continue;
    }
    const run = runOfTable(tables[0]!);
    for (const table of tables) {
      for (const row of await readCompletions(table)) completions.push(fromTable(row, run ?? table));
    }
    const settings = run === null ? null : settingsOf(run);
    if (settings !== null) runs.push(settings);
  }
  if (completions.length === 0) {
    throw badInput(`${paths.join(', ')}: no recorded completions found.`);
  }
  return { completions, runs };
}
