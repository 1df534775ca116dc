/** Reference answers as they appear in data sets: a value, text after `####`, or a box in a solution. */
import { boxedAnswer } from '#verify/boxed';

/** Code and its output in tool-using solutions; a box inside is program text. */
const FENCED = /```[^]*?(?:```|$)/g;

/** GSM8K: the last line of an answer, after its marker. */
const MARKED = /(?:^|\n)####[ \t]*([^\n]+?)\s*$/;

/** `1,234` is a number, not a list; GSM8K also writes 1234. */
const THOUSANDS = /(?<=\d),(?=\d{3}(?!\d))/g;

/** The gold answer in an answer column: what follows `####` in its last line, else the whole text. */
export function goldFromAnswer(answer: string): string {
  const marked = MARKED.exec(answer);
  return own(marked === null ? answer.trim() : marked[1]!.replace(THOUSANDS, ''));
}

/** The boxed answer of a worked solution, outside its code; empty when there is none. */
export function goldFromSolution(solution: string): string {
  return own(boxedAnswer(solution.replace(FENCED, ''), true) ?? '');
}

/** A copy, because a slice would keep the whole solution in memory. */
const own = (text: string): string => Buffer.from(text, 'utf8').toString('utf8');
