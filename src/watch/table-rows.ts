/** The completions of a table for the page. */
import { basename } from 'node:path';
import { AcoerError } from '../base/errors';
import { shownCompletions } from '../report';
import { readCompletions, type RunDirectory } from '../run';
import { mayRead } from './inside';
import type { TableKind, WireTableRows } from './wire';

/** A table has one row per completion of a batch, so this is rarely reached. */
const MOST_ROWS = 512;

/** @throws BAD_INPUT if there is no such table, or it is damaged */
export async function tableRows(run: RunDirectory, kind: TableKind, step: number): Promise<WireTableRows> {
  const path = kind === 'training' ? run.completions(step) : run.answers(step, kind);
  if (!(await mayRead(run.path, path))) {
    throw new AcoerError('BAD_INPUT', `${path} is a link that leads out of the run; it is not read.`);
  }
  const rows = await readCompletions(path);
  const shown = [{ run: 0, from: kind, rows: rows.slice(0, MOST_ROWS) }];
  return {
    total: rows.length,
    ...shownCompletions(shown, [{ name: basename(run.path), promptTemplate: run.promptTemplate() }]),
  };
}
