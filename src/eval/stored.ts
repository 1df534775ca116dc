/** Completions as lines of a file, with the columns of a run's completion tables. */
import type { Verdict } from '../types';
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
    format_ok: completion.format,
    thinking_tokens: completion.thinkingTokens,
    thinking_closed: completion.thinkingClosed,
    later_thinking_tokens: completion.laterThinkingTokens,
    answer_tokens: completion.answerTokens,
    total_tokens: completion.totalTokens,
    finish: completion.truncated === true ? 'length' : 'stop',
  };
}

/** The row that a line was made from. */
export function storedRow(line: Record<string, unknown>): EvalRow {
  return {
    index: line.prompt_index as number,
    sample: line.sample as number,
    problemId: line.problem_id as string,
    gold: line.gold as string,
    level: line.level as string | null,
    verdict: {
      correct: line.correct as boolean,
      status: line.status as Verdict['status'],
      extracted: line.extracted as string | null,
    },
    thinkingTokens: line.thinking_tokens as number,
    thinkingClosed: line.thinking_closed as boolean,
    laterThinkingTokens: line.later_thinking_tokens as number | undefined,
    answerTokens: line.answer_tokens as number | undefined,
    totalTokens: line.total_tokens as number,
    truncated: line.finish === 'length',
  };
}
