/** A few completions as Markdown. Whatever they contain is shown as text, never rendered. */
import { printable } from '../base/printable';
import type { CompletionRow, StoredCompletion } from '../run';
import { maximum } from '../base/statistics';

/** What trackers show of a completion. */
export interface Sample {
  prompt: string;
  completion: string;
  correct: boolean;
  thinkingTokens: number;
  totalTokens: number;
  reward: number;
}

export const sampleOf = ({ rollout, reward }: CompletionRow): Sample => ({
  prompt: rollout.prompt.text,
  completion: rollout.text,
  correct: rollout.verdict.correct,
  thinkingTokens: rollout.thinkingTokens,
  totalTokens: rollout.totalTokens,
  reward: reward.total,
});

export const storedSample = (row: StoredCompletion): Sample => ({ ...row, reward: row.scored?.total ?? NaN });

const SHOWN_SAMPLES = 4;
/** UTF-16 units shown of the beginning and of the end of a text. */
const HEAD = 1500;
const TAIL = 700;

function shortened(text: string): string {
  const left = text.length - HEAD - TAIL;
  return left <= 0 ? text : `${text.slice(0, HEAD)}\n[... ${left} characters ...]\n${text.slice(-TAIL)}`;
}

/** A code block whose fence is longer than any run of backticks inside it. */
function fenced(text: string): string {
  const shown = printable(shortened(text));
  const longest = Math.max(3, maximum(Array.from(shown.matchAll(/`+/g), ([run]) => run.length)));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${shown}\n${fence}`;
}

/** Up to four of the completions, evenly spread over the groups. */
export function samplesMarkdown(samples: readonly Sample[]): string {
  const count = Math.min(SHOWN_SAMPLES, samples.length);
  const shown = Array.from({ length: count }, (_, i) => samples[Math.floor((i * samples.length) / count)]!);
  return shown
    .map(({ prompt, completion, correct, thinkingTokens, totalTokens, reward }) => {
      const head = `**${correct ? 'Correct' : 'Wrong'}**, ${thinkingTokens} thinking tokens of ${totalTokens}, reward ${reward.toFixed(3)}`;
      return [head, fenced(prompt), fenced(completion)].join('\n\n');
    })
    .join('\n\n');
}
