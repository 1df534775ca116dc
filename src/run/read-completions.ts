/** Reads completion tables, for tools that inspect what a run sampled. */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { AcoerError } from '../base/errors';
import { parquetRows } from '../parquet';
import type { VerdictStatus } from '../base/types';

/** One row of a table written by `writeCompletions` or `writeAnswers`. */
export interface StoredCompletion {
  /** Step of the run, from 1; in an evaluation, the last step before it, 0 for the base model. */
  step: number;
  promptIndex: number;
  prompt: string;
  problemId: string;
  level: string | null;
  /** null if the problem has no reference answer. */
  gold: string | null;
  completion: string;
  correct: boolean;
  extracted: string | null;
  format: boolean;
  thinkingTokens: number;
  thinkingClosed: boolean;
  /** Absent in tables from versions that did not record it. */
  laterThinkingTokens?: number;
  totalTokens: number;
  finish: 'stop' | 'length' | 'cancelled';
  /** Among the completions of its prompt, from 0. */
  sample: number;
  status: VerdictStatus;
  /** Absent in evaluations, which have no reward. */
  scored?: StoredReward;
}

export interface StoredReward {
  total: number;
  /** Weighted, so that they add up to `total`. */
  parts: Record<string, number>;
  advantage: number;
}

const COLUMNS = {
  step: 'number',
  prompt_index: 'number',
  prompt: 'string',
  problem_id: 'string',
  completion: 'string',
  correct: 'boolean',
  format_ok: 'boolean',
  thinking_tokens: 'number',
  thinking_closed: 'boolean',
  total_tokens: 'number',
  finish: 'string',
  sample: 'number',
  status: 'string',
} as const;

type Row = Record<string, unknown>;

function checkRow(path: string, row: Row, index: number): void {
  const wrong = Object.entries(COLUMNS).find(([name, type]) => typeof row[name] !== type);
  if (wrong === undefined) return;
  const [name, type] = wrong;
  const found = row[name] === undefined ? 'it is missing' : `it is ${typeof row[name]}`;
  throw new AcoerError(
    'BAD_INPUT',
    `${path} is not a completion table of a run: in row ${index + 1} \`${name}\` must be a ${type}, but ${found}.`,
  );
}

/** Columns of rewards, named by the run, are between the completion and their sum. */
function scored(row: Row): Pick<StoredCompletion, 'scored'> {
  const { reward, advantage } = row;
  if (typeof reward !== 'number' || typeof advantage !== 'number') return {};
  const names = Object.keys(row);
  const own = names.slice(names.indexOf('completion') + 1, names.indexOf('reward'));
  const parts = own.map((name) => [name, row[name]] as const).filter((part) => typeof part[1] === 'number');
  return {
    scored: { total: reward, parts: Object.fromEntries(parts) as Record<string, number>, advantage },
  };
}

const storedFrom = (row: Row): StoredCompletion => ({
  step: row.step as number,
  promptIndex: row.prompt_index as number,
  prompt: row.prompt as string,
  problemId: row.problem_id as string,
  level: (row.level ?? null) as string | null,
  gold: (row.gold ?? null) as string | null,
  completion: row.completion as string,
  correct: row.correct as boolean,
  extracted: (row.extracted ?? null) as string | null,
  format: row.format_ok as boolean,
  thinkingTokens: row.thinking_tokens as number,
  thinkingClosed: row.thinking_closed as boolean,
  ...(typeof row.later_thinking_tokens === 'number' && { laterThinkingTokens: row.later_thinking_tokens }),
  totalTokens: row.total_tokens as number,
  finish: row.finish as StoredCompletion['finish'],
  sample: row.sample as number,
  status: row.status as VerdictStatus,
  ...scored(row),
});

/** The rows of a completion table in order. @throws BAD_INPUT if the file is not one */
export async function readCompletions(path: string): Promise<StoredCompletion[]> {
  if (!existsSync(path)) throw new AcoerError('BAD_INPUT', `There is no completion table ${path}.`);
  const rows: StoredCompletion[] = [];
  for await (const row of parquetRows(path, { path, zipped: false }, (columns) => columns)) {
    checkRow(path, row, rows.length);
    rows.push(storedFrom(row));
  }
  return rows;
}

/** The completion tables in a run's folder, in step order. @throws BAD_INPUT if there are none */
export function completionTables(runPath: string): string[] {
  const folder = join(runPath, 'completions');
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.parquet')) : [];
  if (names.length > 0) return names.sort().map((name) => join(folder, name));
  throw new AcoerError('BAD_INPUT', `${runPath} contains no completion tables (completions/*.parquet).`);
}

/** The folder of the run that a completion table belongs to, or null if it is on its own. */
export function runOfTable(path: string): string | null {
  const run = dirname(dirname(path));
  return existsSync(join(run, 'config.json')) ? run : null;
}
