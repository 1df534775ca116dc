/** Braces, Markdown and tags around an answer, which are no part of it. */

/**
 * A mark of emphasis with nothing to multiply on its left, up to the same mark with nothing on its right:
 * `**73**`, `x = *5*`, `__3__, __5__`, but not `2**3` or `a*b*c`.
 */
const EMPHASIS =
  /(^|[,;=:$([{]|(?<![\\a-zA-Z])(?:and|or|is)(?![a-zA-Z]))(\s*)(\*{1,3}|_{1,3})(?=[^\s*_])((?:(?!\3)[^]){1,256})\3(?![\w*])/g;
/** `~~73~~` is struck out: no answer. */
const STRUCK = /^\s*~~(?!~)[^~]+~~\s*$/;
const TAG = /<\/?answer>/gi;

/** The content of a box without emphasis and tags; unreadable when it is struck out. */
export function withoutEmphasis(text: string): string {
  if (!/[*_<~]/.test(text)) return text;
  if (STRUCK.test(text)) return '\ufffd';
  return text
    .replace(TAG, '')
    .replaceAll('\\*', '*')
    .replace(EMPHASIS, (all: string, before: string, space: string, _mark: string, inner: string) =>
      isEmphasised(inner) ? `${before}${space}${inner}` : all,
    );
}

function isEmphasised(inner: string): boolean {
  if (/\s$/.test(inner) || !/[\p{L}\p{N}]/u.test(inner)) return false;
  let depth = 0;
  for (const sign of inner) {
    if ('([{'.includes(sign)) depth++;
    else if (')]}'.includes(sign) && --depth < 0) return false;
  }
  return depth === 0;
}

/** The position of the brace that closes one opened before `from`; -1 if there is none. */
export function closingBrace(text: string, from: number): number {
  let depth = 1;
  for (let at = from; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '{') depth++;
    else if (text[at] === '}' && --depth === 0) return at;
  }
  return -1;
}

const CODE = /(`{1,2})([^`\n]{1,128})\1/g;
/** A number emphasised in a sentence. In `2 *3* 4` and `x^*3` the marks are operators. */
const NUMBER = /(?=[*_])(?<![\d)}\]]\s*)(?<![\w^*\\])([*_]{1,3})([-+]?\d[\d.,/]*%?)\1(?![\w*])/g;

/** Unicode's hyphens and its minus sign. */
const MINUS = /[\u2010-\u2012\u2212]/g;

/** Text with plain signs before its numbers, and without the marks of code and of emphasised numbers. */
export function withoutMarks(text: string): string {
  return text.replace(MINUS, '-').replace(CODE, '$2').replace(NUMBER, '$2');
}

const ANSWER_TAG = /<answer>((?:(?!<answer>)[^])*?)<\/answer>/gi;

/** What the last `<answer>` with content contains; null without one. */
export function taggedAnswer(text: string): string | null {
  let last: string | null = null;
  for (const [, content] of text.matchAll(ANSWER_TAG)) last = content!.trim() || last;
  return last;
}
