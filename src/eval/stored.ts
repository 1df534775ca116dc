/** Completions as lines of a file, with the columns of a run's completion tables. */
import { z } from 'zod';
import { badInput } from '../base/errors';
import { VERDICT_STATUSES } from '../base/types';
import type { EvalCompletion } from './evaluate';
import type { EvalRow } from './summary';

/** One line. Token counts are those of the model's own ids. */
export function storedCompletion(benchmark: string, completion: EvalCompletion): Record<string, unknown> {
  const { prompt, verdict } = completion;
  return {
    benchmark,
    prompt_index: completion.index,
    problem_id: completion.problemId,
    sample: completion.sample,
    level: completion.level,
    prompt: prompt.text,
    completion: completion.text,
    gold: completion.gold,
    correct: verdict.correct,
    status: verdict.status,
    extracted: verdict.extracted,
    from_open_thinking: verdict.fromOpenThinking === true,
    format_ok: completion.format,
    thinking_tokens: completion.thinkingTokens,
    thinking_closed: completion.thinkingClosed,
    later_thinking_tokens: completion.laterThinkingTokens,
    answer_tokens: completion.answerTokens,
    total_tokens: completion.totalTokens,
    finish: completion.truncated === true ? 'length' : 'stop',
  };
}

const tokens = z.int().min(0);
const line = z.object({
  prompt_index: z.int(),
  problem_id: z.string(),
  sample: z.int(),
  level: z.string().nullable(),
  gold: z.string().nullable(),
  correct: z.boolean(),
  status: z.enum(VERDICT_STATUSES),
  extracted: z.string().nullable(),
  from_open_thinking: z.boolean().optional(),
  thinking_tokens: tokens,
  thinking_closed: z.boolean(),
  later_thinking_tokens: tokens.optional(),
  answer_tokens: tokens.optional(),
  total_tokens: tokens,
  finish: z.enum(['stop', 'length']),
});

/**
 * The row that a line was made from.
 * @param where file and line
 * @throws BAD_INPUT naming `where` and the column
 */
export function storedRow(values: Record<string, unknown>, where: string): EvalRow {
  const parsed = line.safeParse(values);
  if (!parsed.success) {
    const column = parsed.error.issues[0]!.path.join('.');
    throw badInput(`${where} is not a row of an evaluation: see its ${column}. Remove the line to continue.`);
  }
  const row = parsed.data;
  return {
    index: row.prompt_index,
    sample: row.sample,
    problemId: row.problem_id,
    gold: row.gold,
    level: row.level,
    verdict: {
      correct: row.correct,
      status: row.status,
      extracted: row.extracted,
      ...(row.from_open_thinking === true && { fromOpenThinking: true }),
    },
    thinkingTokens: row.thinking_tokens,
    thinkingClosed: row.thinking_closed,
    laterThinkingTokens: row.later_thinking_tokens,
    answerTokens: row.answer_tokens,
    totalTokens: row.total_tokens,
    truncated: row.finish === 'length',
  };
}
