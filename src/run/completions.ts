/** Tables of sampled completions, one Parquet file per table; columns have TRL's names where TRL has them. */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ColumnSource } from 'hyparquet-writer' with { 'resolution-mode': 'import' };
import { badInput } from '../base/errors';
import { LAST_COLUMN, type TableColumn } from '../base/table-columns';
import type { ColumnValue, Reward, Rollout, Thinking, Verdict } from '../base/types';
import { parquetRows } from '../parquet';
import { writeFileAtomic } from './atomic';

export interface CompletionRow {
  rollout: Rollout;
  reward: Reward;
  advantage: number;
}

/** What a table keeps of a completion, whether it was sampled for training or for an evaluation. */
export type TabledCompletion = Omit<Rollout, 'ids' | 'logprobs' | 'entropies'>;

type Type = 'STRING' | 'INT32' | 'DOUBLE' | 'BOOLEAN';

function column<Row>(
  name: string,
  type: Type,
  rows: readonly Row[],
  value: (row: Row) => unknown,
): ColumnSource {
  return { name, type, data: rows.map(value) };
}

/** Step and texts, which come first. */
function textColumns(step: number, rows: readonly TabledCompletion[]): ColumnSource[] {
  return [
    column('step', 'INT32', rows, () => step),
    column('prompt', 'STRING', rows, (r) => r.prompt.text),
    column('completion', 'STRING', rows, (r) => r.text),
  ];
}

function rewardColumns(rows: readonly CompletionRow[]): ColumnSource[] {
  const names = Object.keys(rows[0]?.reward.parts ?? {});
  return [
    ...names.map((name) => column(name, 'DOUBLE', rows, ({ reward }) => reward.parts[name])),
    column('reward', 'DOUBLE', rows, ({ reward }) => reward.total),
    column('advantage', 'DOUBLE', rows, ({ advantage }) => advantage),
  ];
}

function verdictColumns(rows: readonly TabledCompletion[]): ColumnSource[] {
  const of = (name: TableColumn, type: Type, value: (row: TabledCompletion) => unknown) =>
    column(name, type, rows, value);
  return [
    of('prompt_index', 'INT32', (r) => r.prompt.index),
    of('problem_id', 'STRING', (r) => r.prompt.problem.id),
    of('level', 'STRING', (r) => r.prompt.problem.level),
    of('gold', 'STRING', (r) => r.prompt.problem.gold),
    of('sample', 'INT32', (r) => r.sample),
    of('correct', 'BOOLEAN', (r) => r.verdict.correct),
    of('status', 'STRING', (r) => r.verdict.status),
    of('extracted', 'STRING', (r) => r.verdict.extracted),
    of('format_ok', 'BOOLEAN', (r) => r.format),
    of('thinking_tokens', 'INT32', (r) => r.thinkingTokens),
    of('thinking_closed', 'BOOLEAN', (r) => r.thinkingClosed),
    of('later_thinking_tokens', 'INT32', (r) => r.laterThinkingTokens),
    of('answer_tokens', 'INT32', (r) => r.answerTokens),
    of('total_tokens', 'INT32', (r) => r.totalTokens),
    of('finish', 'STRING', (r) => r.finish),
  ];
}

const COLUMN_TYPES: Readonly<Record<string, Type>> = { number: 'DOUBLE', boolean: 'BOOLEAN' };

/** What rewards noted, last: a column of one kind of values, or of text. */
function notedColumns(rows: readonly CompletionRow[]): ColumnSource[] {
  const names = new Set(rows.flatMap(({ reward }) => Object.keys(reward.columns ?? {})));
  return [...names].map((name) => {
    const values = rows.map(({ reward }) => reward.columns?.[name] ?? null);
    const kinds = new Set(values.filter((value) => value !== null).map((value) => typeof value));
    const type = (kinds.size === 1 ? COLUMN_TYPES[[...kinds][0]!] : undefined) ?? 'STRING';
    const asText = (value: ColumnValue) => (value === null ? null : String(value));
    return { name, type, data: type === 'STRING' ? values.map(asText) : values };
  });
}

async function writeTable(path: string, columnData: ColumnSource[]): Promise<void> {
  // The writer is an ES module, which a CommonJS build can only load with `import()`.
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  writeFileAtomic(path, new Uint8Array(parquetWriteBuffer({ columnData })));
}

/** Writes the completions of one generated batch. Reward columns are weighted, as they enter `reward`. */
export function writeCompletions(path: string, step: number, rows: readonly CompletionRow[]): Promise<void> {
  const rollouts = rows.map(({ rollout }) => rollout);
  return writeTable(path, [
    ...textColumns(step, rollouts),
    ...rewardColumns(rows),
    ...verdictColumns(rollouts),
    ...notedColumns(rows),
  ]);
}

/** Writes the answers of an evaluation: the same columns without rewards and advantage. */
export async function writeAnswers(
  path: string,
  step: number,
  rows: readonly TabledCompletion[],
): Promise<void> {
  await writeTable(path, [...textColumns(step, rows), ...verdictColumns(rows)]);
}

/** One row of a table written by `writeCompletions` or `writeAnswers`. */
export interface StoredCompletion extends Thinking, Omit<Verdict, 'fromOpenThinking'> {
  /** Step of the run, from 1; in an evaluation, the last step before it, 0 for the base model. */
  step: number;
  promptIndex: number;
  prompt: string;
  problemId: string;
  level: string | null;
  /** null if the problem has no reference answer. */
  gold: string | null;
  completion: string;
  format: boolean;
  /** Absent in tables from versions that did not record it. */
  laterThinkingTokens?: number;
  totalTokens: number;
  finish: 'stop' | 'length' | 'cancelled';
  /** Among the completions of its prompt, from 0. */
  sample: number;
  /** Absent in evaluations, which have no reward. */
  scored?: StoredReward;
  /** What rewards noted of the completion; absent if nothing. */
  columns?: Readonly<Record<string, ColumnValue>>;
}

/** `parts` are weighted, so that they add up to `total`. */
export interface StoredReward extends Omit<Reward, 'columns'> {
  advantage: number;
}

/** The columns that every table has, by the field that they are read into. */
const COLUMNS = {
  step: ['step', 'number'],
  promptIndex: ['prompt_index', 'number'],
  prompt: ['prompt', 'string'],
  problemId: ['problem_id', 'string'],
  completion: ['completion', 'string'],
  correct: ['correct', 'boolean'],
  format: ['format_ok', 'boolean'],
  thinkingTokens: ['thinking_tokens', 'number'],
  thinkingClosed: ['thinking_closed', 'boolean'],
  totalTokens: ['total_tokens', 'number'],
  finish: ['finish', 'string'],
  sample: ['sample', 'number'],
  status: ['status', 'string'],
} as const;

type Row = Record<string, unknown>;
type Always = Pick<StoredCompletion, keyof typeof COLUMNS>;

/**
 * @param columns names and types, by field
 * @param kind of table, for messages
 * @param index of the row, from 0
 * @throws BAD_INPUT naming the first column that is missing or of another type
 */
export function typedFields(
  columns: Readonly<Record<string, readonly [name: string, type: string]>>,
  kind: string,
  path: string,
  row: Row,
  index: number,
): Record<string, unknown> {
  const wrong = Object.values(columns).find(([name, type]) => typeof row[name] !== type);
  if (wrong === undefined)
    return Object.fromEntries(Object.entries(columns).map(([field, [name]]) => [field, row[name]]));
  const [name, type] = wrong;
  const found = row[name] === undefined ? 'it is missing' : `it is ${typeof row[name]}`;
  throw badInput(`${path} is not ${kind}: in row ${index + 1} \`${name}\` must be a ${type}, but ${found}.`);
}

const alwaysThere = (path: string, row: Row, index: number): Always =>
  typedFields(COLUMNS, 'a completion table of a run', path, row, index) as Always;

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

const isColumnValue = (value: unknown): value is ColumnValue =>
  ['string', 'number', 'boolean'].includes(typeof value);

/** Columns of rewards that follow those of every table. */
function noted(row: Row): Pick<StoredCompletion, 'columns'> {
  const names = Object.keys(row);
  const own = names.slice(names.indexOf(LAST_COLUMN) + 1);
  if (own.length === 0) return {};
  const values = own.map((name) => [name, isColumnValue(row[name]) ? row[name] : null] as const);
  return { columns: Object.fromEntries(values) };
}

/** The rows of a completion table in order. @throws BAD_INPUT if the file is not one */
export async function readCompletions(path: string): Promise<StoredCompletion[]> {
  if (!existsSync(path)) throw badInput(`There is no completion table ${path}.`);
  const rows: StoredCompletion[] = [];
  for await (const row of parquetRows(path, { path, zipped: false }, (columns) => columns)) {
    const text = (name: string) => (row[name] ?? null) as string | null;
    const { later_thinking_tokens: later } = row;
    rows.push({
      ...alwaysThere(path, row, rows.length),
      ...{ level: text('level'), gold: text('gold'), extracted: text('extracted') },
      ...(typeof later === 'number' && { laterThinkingTokens: later }),
      ...scored(row),
      ...noted(row),
    });
  }
  return rows;
}

/** The completion tables in a run's folder, in step order. @throws BAD_INPUT if there are none */
export function completionTables(runPath: string): string[] {
  const folder = join(runPath, 'completions');
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.parquet')) : [];
  if (names.length > 0) return names.sort().map((name) => join(folder, name));
  throw badInput(`${runPath} contains no completion tables (completions/*.parquet).`);
}

/** The folder of the run that a completion table belongs to, or null if it is on its own. */
export function runOfTable(path: string): string | null {
  const run = dirname(dirname(path));
  return existsSync(join(run, 'config.json')) ? run : null;
}

/** What the completions of a table were made for. */
export type TableKind = 'training' | EvaluationKind;
export type EvaluationKind = 'greedy' | 'sampled';

export interface RunTable {
  path: string;
  /** Step of the run; for an evaluation, the last step before it, 0 for the base model. */
  step: number;
  kind: TableKind;
}

/** At the same step the evaluation comes after the training. */
const KINDS: readonly TableKind[] = ['training', 'greedy', 'sampled'];

/** A table that is being written has another name until it is whole. */
const NAME = /^step-(\d{6,})(?:-(greedy|sampled))?\.parquet$/;

function tablesIn(folder: string, of: (kind: string | undefined) => TableKind | null): RunTable[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder).flatMap((name) => {
    const match = NAME.exec(name);
    const kind = match === null ? null : of(match[2]);
    return kind === null ? [] : [{ path: join(folder, name), step: Number(match![1]), kind }];
  });
}

/** The tables in the order in which they were made. */
export function runTables(runPath: string): RunTable[] {
  const training = tablesIn(join(runPath, 'completions'), (kind) => (kind === undefined ? 'training' : null));
  const evaluations = tablesIn(join(runPath, 'evaluations'), (kind) => (kind as TableKind) ?? null);
  return [...training, ...evaluations].sort(
    (a, b) => a.step - b.step || KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind),
  );
}
