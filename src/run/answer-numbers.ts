/** The numbers of an evaluation's answers, without their texts: those of many runs fit into memory. */
import { parquetRows } from '../parquet';
import { typedFields } from './completions';

/** One answer to one problem. */
export interface AnswerNumbers {
  promptIndex: number;
  sample: number;
  problemId: string;
  level: string | null;
  correct: boolean;
  thinkingTokens: number;
  totalTokens: number;
}

const COLUMNS = {
  promptIndex: ['prompt_index', 'number'],
  sample: ['sample', 'number'],
  problemId: ['problem_id', 'string'],
  correct: ['correct', 'boolean'],
  thinkingTokens: ['thinking_tokens', 'number'],
  totalTokens: ['total_tokens', 'number'],
} as const;
const READ: readonly string[] = [...Object.values(COLUMNS).map(([name]) => name), 'level'];

function numbersOf(path: string, row: Record<string, unknown>, index: number): AnswerNumbers {
  const fields = typedFields(COLUMNS, "a table of an evaluation's answers", path, row, index);
  const { level } = row;
  return { ...(fields as Omit<AnswerNumbers, 'level'>), level: typeof level === 'string' ? level : null };
}

/** @param path of a table that `writeAnswers` wrote @throws BAD_INPUT if it is not one */
export async function readAnswerNumbers(path: string): Promise<AnswerNumbers[]> {
  const rows: AnswerNumbers[] = [];
  const choose = (columns: readonly string[]) => columns.filter((name) => READ.includes(name));
  for await (const row of parquetRows(path, { path, zipped: false }, choose)) {
    rows.push(numbersOf(path, row, rows.length));
  }
  return rows;
}
