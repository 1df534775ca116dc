/** Reference answers as data sets hold them: a value of their own, behind `####`, or boxed in a solution. */
import { boxedAnswer } from '../verify/boxed';
import { verifyCompletion } from '../verify';

/** Code and its output, as tool-using solutions have them: a box in there is program text. */
const FENCED = /```[^]*?(?:```|$)/g;

/** GSM8K: the last line of an answer, behind its marker. */
const MARKED = /(?:^|\n)####[ \t]*([^\n]+?)\s*$/;

/** `1,234` is a number and not a list; GSM8K writes both. */
const THOUSANDS = /(?<=\d),(?=\d{3}(?!\d))/g;

/** An answer column's text: what stands behind `####` if that is how it ends, else all of it. */
export function goldFromAnswer(answer: string): string {
  const marked = MARKED.exec(answer);
  return own(marked === null ? answer.trim() : marked[1]!.replace(THOUSANDS, ''));
}

/** The boxed answer of a worked solution, outside its code; empty when there is none. */
export function goldFromSolution(solution: string): string {
  return own(boxedAnswer(solution.replace(FENCED, ''), true) ?? '');
}

/** A copy: a slice would keep the whole solution in memory. */
const own = (text: string): string => Buffer.from(text, 'utf8').toString('utf8');

/**
 * Whether the verifier can read `gold` as a reference. An answer is judged against nothing else, so a row that fails
 * here can teach nothing.
 */
export function goldParses(gold: string): boolean {
  return verifyCompletion('', gold).status !== 'gold-unparseable';
}
