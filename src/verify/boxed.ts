/** Finds boxed answers in a completion, in one pass, so that the cost of hostile text is linear. */

const CLOSE_THINK = '</think>';

/**
 * The text in which an answer counts: after the first `</think>` when the thinking was closed, else all of
 * it. A box inside closed thinking is a thought, not an answer.
 */
export function answerRegion(text: string): string {
  const close = text.indexOf(CLOSE_THINK);
  return close < 0 ? text : text.slice(close + CLOSE_THINK.length);
}

export interface Box {
  /** Position of `\boxed` in the text. */
  start: number;
  /** Position after the closing brace. */
  end: number;
  /** Trimmed. */
  content: string;
  /** Whether it has a closing brace. */
  complete: boolean;
}

/**
 * `\boxed` or `\fbox` with its brace (models sometimes double the backslash), an escaped character, or a
 * brace.
 */
const BRACES = /\\+(?:boxed|fbox)\s*\{|\\[^]|[{}]/g;

/** All boxes with both braces, in order of their start. `\{` and `\}` are text. */
export function completeBoxes(text: string): Box[] {
  const open: { start: number; content: number; isBox: boolean }[] = [];
  const boxes: Box[] = [];
  for (const { 0: token, index } of text.matchAll(BRACES)) {
    if (token === '}') {
      const group = open.pop();
      if (group?.isBox) {
        const content = text.slice(group.content, index).trim();
        boxes.push({ start: group.start, end: index + 1, content, complete: true });
      }
    } else if (token.endsWith('{') && token !== '\\{') {
      open.push({ start: index, content: index + token.length, isBox: token.length > 1 });
    }
  }
  return boxes.sort((a, b) => a.start - b.start);
}

/** Content of the last complete box, trimmed, or null. The last of nested boxes is the innermost. */
export function lastBoxed(text: string): string | null {
  return completeBoxes(text).at(-1)?.content ?? null;
}

/** A box with braces at most one level deep inside. */
const SHALLOW_BOX = /\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}/g;
const ANSWER_TAG = /<answer>([^]*?)<\/answer>/g;

/**
 * Finds the answer as the authors' released reward does: the last `\boxed{}` of the whole text, thinking
 * included, else the last `<answer>`. null without either; empty ones do not count.
 */
export function lastBoxOrTag(text: string): string | null {
  const last = (pattern: RegExp, within: string): string =>
    [...within.matchAll(pattern)].at(-1)?.[1]?.trim() ?? '';
  // Up to the last closing tag every opening one finds its end, so the search stays linear.
  const tagged = text.slice(0, text.lastIndexOf('</answer>') + '</answer>'.length);
  return last(SHALLOW_BOX, text) || last(ANSWER_TAG, tagged) || null;
}

/** Where the last box starts, complete or not; -1 without one. */
const lastBoxStart = (text: string): number =>
  Math.max(text.lastIndexOf('\\boxed'), text.lastIndexOf('\\fbox'));

/** A box without braces, `\boxed 5`, after all complete boxes. */
function looseBox(text: string, before: readonly Box[]): Box | null {
  const start = lastBoxStart(text);
  if (start < (before.at(-1)?.end ?? 0) || OPENED.test(text.slice(start, start + 32))) return null;
  const content = text
    .slice(start)
    .replace(/^\\f?box(?:ed)?\s*/, '')
    .trim();
  return { start, end: text.length, content, complete: false };
}

const OPENED = /^\\f?box(?:ed)?\s*\{/;

/**
 * Whether the text ends in a truncated box and has no complete one: then it has no answer, whatever else it
 * contains.
 */
export function isCutOff(text: string): boolean {
  const start = lastBoxStart(text);
  return start >= 0 && OPENED.test(text.slice(start, start + 32)) && completeBoxes(text).length === 0;
}

/**
 * What may separate the boxes of one list: commas, `and`, `or`, spaces, formula delimiters, and inside a
 * formula `\text{for part (a) and}`.
 */
const BETWEEN =
  /^(?:[\s$,~]|\\(?:[()[\],;:! ]|q?quad\b)|\\(?:text|textrm|textbf|mathrm|mbox)\s*\{\s*,?\s*(?:(?:for [^{}.,;]{1,30} )?(?:and|or))?\s*,?\s*\}|\b(?:and|or)\b)*$/;
const MAX_BETWEEN = 128;
/** `x = ` directly before a box. */
const LABEL = /(?<![\\a-zA-Z])(?:\\[a-zA-Z]{2,12}|[a-zA-Z])(?:_(?:\{\w{1,8}\}|\w))?\s*=\s*$/;

/** A percent sign or word directly after a box and its closing delimiters. */
const PERCENT_AFTER = /^[\s}$]*(?:\\\)|\\\])?\s*(?:\\?%|percent(?:age)?\b|pct\b)/i;

/**
 * The boxed answer: the last box, joined by commas with those before it that only commas, `and`, `or` and
 * formula delimiters separate. If `x = ` comes directly before each box, it names the part. A percent sign or
 * word after the last box belongs to it. null without a box, or if it is empty. `tolerant` also accepts a box
 * without a closing brace.
 */
export function boxedAnswer(text: string, tolerant: boolean): string | null {
  if (!text.includes('box')) return null;
  const boxes = innermost(completeBoxes(text));
  const loose = tolerant ? looseBox(text, boxes) : null;
  if (loose !== null) return loose.content || null;
  const last = boxes.at(-1);
  if (last === undefined) return null;
  const kept = listOf(text, boxes);
  const contents = kept.filter((content, i, all) => content !== all[i - 1]);
  const percent = PERCENT_AFTER.test(text.slice(last.end, last.end + 24)) ? '\\%' : '';
  return contents.join(',') + percent || null;
}

const SEPARATOR = /\b(?:and|or)\b|[,;]/;

/**
 * The boxed answer of a reference, which is not adversarial: boxes fewer than 10 characters apart, or 70 with
 * a separator, belong together, as in math_verify.
 */
export function boxesOfReference(text: string): string | null {
  const boxes = innermost(completeBoxes(text));
  if (boxes.length < 2 || looseBox(text, boxes) !== null) return boxedAnswer(text, true);
  let first = boxes.length - 1;
  for (; first > 0; first--) {
    const [box, next] = [boxes[first - 1]!, boxes[first]!];
    const between = text.slice(box.end, next.start);
    const apart = between.length >= 70 || !SEPARATOR.test(between) || box.content === next.content;
    if (between.length >= 10 && apart) break;
  }
  const contents = boxes.slice(first).map((box) => box.content);
  if (contents.length === 1) return boxedAnswer(text, true);
  return contents.filter((content, i, all) => content !== all[i - 1]).join(',') || null;
}

/** The contents of the last box and of those that form a list with it, with their names if all have one. */
function listOf(text: string, boxes: readonly Box[]): string[] {
  const last = boxes.at(-1)!;
  const plain = [last.content];
  for (let i = boxes.length - 2; i >= 0 && isBetween(text.slice(boxes[i]!.end, boxes[i + 1]!.start)); i--)
    plain.unshift(boxes[i]!.content);
  if (plain.length > 1) return plain;
  const label = labelOf(text, last);
  const labelled = [label + last.content];
  let next = label;
  for (let i = boxes.length - 2; i >= 0 && next !== ''; i--) {
    const box = boxes[i]!;
    const own = labelOf(text, box);
    if (own === '' || !isBetween(text.slice(box.end, boxes[i + 1]!.start - next.length))) break;
    labelled.unshift(own + box.content);
    next = own;
  }
  return labelled.length > 1 ? labelled : plain;
}

const isBetween = (text: string): boolean => text.length <= MAX_BETWEEN && BETWEEN.test(text);

function labelOf(text: string, box: Box): string {
  return LABEL.exec(text.slice(Math.max(0, box.start - 40), box.start))?.[0] ?? '';
}

/** Drops boxes that contain another box. */
function innermost(boxes: readonly Box[]): Box[] {
  return boxes.filter((box, i) => boxes[i + 1] === undefined || boxes[i + 1]!.start >= box.end);
}
