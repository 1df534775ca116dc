/** Where a completion's answer is. Every search is linear in the text, which may be hostile. */
import { answerRegion, lastBoxed } from '#verify/boxed';
import type { JudgedCompletion } from './types';

const OPEN_ANSWER = '<answer>';
const CLOSE_ANSWER = '</answer>';

/** The text after the thinking; all of it if nothing was thought; null if the thinking never ended. */
export function answerText({ text, thinkOpened = false }: JudgedCompletion): string | null {
  const region = answerRegion(text, thinkOpened);
  return region.open ? null : region.text;
}

function lastTagged(text: string): string | null {
  const close = text.lastIndexOf(CLOSE_ANSWER);
  if (close < 0) return null;
  const open = text.lastIndexOf(OPEN_ANSWER, close);
  return open < 0 ? null : text.slice(open + OPEN_ANSWER.length, close);
}

/** The content of the last `\boxed{}`, else of the last `<answer>`, trimmed; null if `answer` has neither. */
export const markedAnswer = (answer: string): string | null =>
  lastBoxed(answer) ?? lastTagged(answer)?.trim() ?? null;
