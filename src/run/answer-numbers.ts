/** The numbers of an evaluation's answers, without their texts: those of many runs fit into memory. */
import { badInput } from '../base/errors';
import { parquetRows } from '../parquet';

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
  prompt_index: 'number',
  sample: 'number',
  problem_id: 'string',
  correct: 'boolean',
  thinking_tokens: 'number',
  total_tokens: 'number',
} as const;
const READ: readonly string[] = [...Object.keys(COLUMNS), 'level'];

function numbersOf(path: string, row: Record<string, unknown>, index: number): AnswerNumbers {
  const wrong = Object.entries(COLUMNS).find(([name, type]) => typeof row[name] !== type);
  if (wrong !== undefined) {
    const [name, type] = wrong;
    throw badInput(
      `${path} is not a table of an evaluation's answers: in row ${index + 1} \`${name}\` must be a ${type}.`,
    );
  }
  return {
    promptIndex: row.prompt_index as number,
    sample: row.sample as number,
    problemId: row.problem_id as string,
    level: typeof row.level === 'string' ? row.level : null,
    correct: row.correct as boolean,
    thinkingTokens: row.thinking_tokens as number,
    totalTokens: row.total_tokens as number,
  };
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
