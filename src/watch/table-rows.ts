/** Rows of a table of completions for the page. */
import { AcoerError } from '../errors';
import { readCompletions, type RunDirectory, type StoredCompletion } from '../run';
import { mayRead } from './inside';
import type { TableKind, WireRow, WireTableRows } from './wire';

/** A table has one row per completion of a batch, so this is rarely reached. */
const MOST_ROWS = 512;
const MOST_CHARACTERS = 64 * 1024;
const MOST_PROMPT = 8 * 1024;
const MOST_NAME = 200;

const cut = (text: string, most: number): string => text.slice(0, most);

function wireRow(row: StoredCompletion): WireRow {
  return {
    problemId: cut(row.problemId, MOST_NAME),
    level: row.level === null ? null : cut(row.level, MOST_NAME),
    prompt: cut(row.prompt, MOST_PROMPT),
    completion: cut(row.completion, MOST_CHARACTERS),
    characters: row.completion.length,
    gold: cut(row.gold, MOST_PROMPT),
    extracted: row.extracted === null ? null : cut(row.extracted, MOST_PROMPT),
    correct: row.correct,
    status: row.status,
    sample: row.sample,
    thinkingTokens: row.thinkingTokens,
    totalTokens: row.totalTokens,
    finish: row.finish,
    reward: row.scored?.total ?? null,
    advantage: row.scored?.advantage ?? null,
  };
}

/** @throws BAD_INPUT if there is no such table, or it is damaged */
export async function tableRows(run: RunDirectory, kind: TableKind, step: number): Promise<WireTableRows> {
  const path = kind === 'training' ? run.completions(step) : run.answers(step, kind);
  if (!(await mayRead(run.path, path))) {
    throw new AcoerError('BAD_INPUT', `${path} is a link that leads out of the run; it is not read.`);
  }
  const rows = await readCompletions(path);
  return { kind, step, total: rows.length, rows: rows.slice(0, MOST_ROWS).map(wireRow) };
}
