/** Tables of sampled completions, one Parquet file per table; columns have TRL's names where TRL has them. */
import type { ColumnSource } from 'hyparquet-writer' with { 'resolution-mode': 'import' };
import type { Reward, Rollout } from '../base/types';
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
  const of = (name: string, type: Type, value: (row: TabledCompletion) => unknown) =>
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
