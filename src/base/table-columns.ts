/** The columns that a table of completions has besides those of its rewards; TRL's names where TRL has them. */
export const TABLE_COLUMNS = [
  'step',
  'prompt',
  'completion',
  'reward',
  'advantage',
  'prompt_index',
  'problem_id',
  'level',
  'gold',
  'sample',
  'correct',
  'status',
  'extracted',
  'format_ok',
  'thinking_tokens',
  'thinking_closed',
  'later_thinking_tokens',
  'answer_tokens',
  'total_tokens',
  'finish',
] as const;

export type TableColumn = (typeof TABLE_COLUMNS)[number];

/** The last of these: what follows was noted by rewards. */
export const LAST_COLUMN: TableColumn = 'finish';
