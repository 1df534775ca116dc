/** Finding the answer in a completion. */

const CLOSE_THINK = '</think>';

/**
 * Where an answer counts: after the first `</think>` when the thinking was closed, else the whole text. A box
 * inside closed thinking is a thought, not an answer.
 */
export function answerRegion(text: string): string {
  const close = text.indexOf(CLOSE_THINK);
  return close < 0 ? text : text.slice(close + CLOSE_THINK.length);
}

/** `\boxed` or `\fbox` with its brace (models double the backslash at times), an escaped character, or a brace. */
const BRACES = /\\+(?:boxed|fbox)\s*\{|\\[^]|[{}]/g;

/**
 * Content of the last complete `\boxed{...}` or `\fbox{...}`, trimmed, or null. Of nested boxes the inner one is
 * the last. `\{` and `\}` are text. One pass, so that hostile text costs no more than its length.
 */
export function lastBoxed(text: string): string | null {
  /** Where the content of each open brace starts, and whether it is a box. */
  const open: { start: number; isBox: boolean }[] = [];
  let last: { start: number; end: number } | null = null;
  for (const { 0: token, index } of text.matchAll(BRACES)) {
    if (token === '}') {
      const group = open.pop();
      if (group?.isBox && (last === null || group.start > last.start))
        last = { start: group.start, end: index };
    } else if (token.endsWith('{') && token !== '\\{') {
      open.push({ start: index + token.length, isBox: token.length > 1 });
    }
  }
  return last === null ? null : text.slice(last.start, last.end).trim();
}
