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

/** Content of the brace group that opens at `open`, or null when it never closes. `\{` and `\}` are text. */
function braceGroup(text: string, open: number): string | null {
  let depth = 0;
  for (let i = open; i < text.length; i++) {
    if (text[i] === '\\') i++;
    else if (text[i] === '{') depth++;
    else if (text[i] === '}' && --depth === 0) return text.slice(open + 1, i);
  }
  return null;
}

/** Content of the last complete `\boxed{...}` or `\fbox{...}`, trimmed, or null. */
export function lastBoxed(text: string): string | null {
  let last: string | null = null;
  for (const match of text.matchAll(/\\(?:boxed|fbox)\s*(?=\{)/g)) {
    last = braceGroup(text, match.index + match[0].length)?.trim() ?? last;
  }
  return last;
}
