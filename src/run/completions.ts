/** Tables of sampled completions, one Parquet file per table; columns have TRL's names where TRL has them. */
import type { ColumnSource } from 'hyparquet-writer' with { 'resolution-mode': 'import' };
import type { Reward, Rollout } from '../types';
import { writeFileAtomic } from './atomic';

export interface CompletionRow {
  rollout: Rollout;
  reward: Reward;
  advantage: number;
}

type Type = 'STRING' | 'INT32' | 'DOUBLE' | 'BOOLEAN';

function columnsOf(
  step: number,
  rows: readonly CompletionRow[],
  rewardNames: readonly string[],
): ColumnSource[] {
  const column = (name: string, type: Type, value: (row: CompletionRow) => unknown): ColumnSource => ({
    name,
    type,
    data: rows.map(value),
  });
  const of = (name: string, type: Type, value: (rollout: Rollout) => unknown) =>
    column(name, type, ({ rollout }) => value(rollout));
  return [
    column('step', 'INT32', () => step),
    of('prompt', 'STRING', (r) => r.prompt.text),
    of('completion', 'STRING', (r) => r.text),
    ...rewardNames.map((name) => column(name, 'DOUBLE', ({ reward }) => reward.parts[name])),
    column('reward', 'DOUBLE', ({ reward }) => reward.total),
    column('advantage', 'DOUBLE', ({ advantage }) => advantage),
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

/** Writes the completions of one generated batch. Reward columns are weighted, as they enter `reward`. */
export async function writeCompletions(
  path: string,
  step: number,
  rows: readonly CompletionRow[],
): Promise<void> {
  // The writer is an ES module, which a CommonJS build can only load with `import()`.
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  const rewardNames = Object.keys(rows[0]?.reward.parts ?? {});
  const buffer = parquetWriteBuffer({ columnData: columnsOf(step, rows, rewardNames) });
  writeFileAtomic(path, new Uint8Array(buffer));
}
