/** Finding boxed answers in a completion. One pass, so that hostile text costs no more than its length. */

const CLOSE_THINK = '</think>';

/**
 * Where an answer counts: after the first `</think>` when the thinking was closed, else the whole text. A box
 * inside closed thinking is a thought, not an answer.
 */
export function answerRegion(text: string): string {
  const close = text.indexOf(CLOSE_THINK);
  return close < 0 ? text : text.slice(close + CLOSE_THINK.length);
}

export interface Box {
  /** Of `\boxed` in the text. */
  start: number;
  /** After the closing brace. */
  end: number;
  /** Trimmed. */
  content: string;
  /** false: it has no closing brace. */
  complete: boolean;
}

/** `\boxed` or `\fbox` with its brace (models double the backslash at times), an escaped character, or a brace. */
const BRACES = /\\+(?:boxed|fbox)\s*\{|\\[^]|[{}]/g;

/** All boxes with both braces, by where they start. `\{` and `\}` are text. */
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

/** Content of the last complete box, trimmed, or null. Of nested boxes the inner one is the last. */
export function lastBoxed(text: string): string | null {
  return completeBoxes(text).at(-1)?.content ?? null;
}

/** A box with braces at most one level deep inside. */
const SHALLOW_BOX = /\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}/g;
const ANSWER_TAG = /<answer>([^]*?)<\/answer>/g;

/**
 * As the authors' released reward looks for an answer: the last `\boxed{}` of all of the text, thinking included, else the
 * last `<answer>`. null without either; an empty one is none.
 */
export function lastBoxOrTag(text: string): string | null {
  const last = (pattern: RegExp): string => [...text.matchAll(pattern)].at(-1)?.[1]?.trim() ?? '';
  return last(SHALLOW_BOX) || last(ANSWER_TAG) || null;
}

/** Where the last box starts, complete or not; -1 without one. */
const lastBoxStart = (text: string): number =>
  Math.max(text.lastIndexOf('\\boxed'), text.lastIndexOf('\\fbox'));

/** `\boxed 5`, after all complete boxes. */
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

/** The text ends in a box that was cut off, and has no complete one: it has no answer, whatever else stands in it. */
export function isCutOff(text: string): boolean {
  const start = lastBoxStart(text);
  return start >= 0 && OPENED.test(text.slice(start, start + 32)) && completeBoxes(text).length === 0;
}

/**
 * What may stand between two boxes of one list: commas, `and`, `or`, space, delimiters of formulas, and in a formula
 * `\text{for part (a) and}`.
 */
const BETWEEN =
  /^(?:[\s$,~]|\\(?:[()[\],;:! ]|q?quad\b)|\\(?:text|textrm|textbf|mathrm|mbox)\s*\{\s*,?\s*(?:(?:for [^{}.,;]{1,30} )?(?:and|or))?\s*,?\s*\}|\b(?:and|or)\b)*$/;
const MAX_BETWEEN = 128;
/** `x = ` directly before a box. */
const LABEL = /(?<![\\a-zA-Z])(?:\\[a-zA-Z]{2,12}|[a-zA-Z])(?:_(?:\{\w{1,8}\}|\w))?\s*=\s*$/;

/** Directly after a box, past its closing delimiters. */
const PERCENT_AFTER = /^[\s}$]*(?:\\\)|\\\])?\s*(?:\\?%|percent(?:age)?\b|pct\b)/i;

/**
 * The boxed answer: the last box, with those before it when nothing but commas, `and`, `or` and delimiters of formulas
 * stand between. Joined by commas; `x = ` directly before each of them names the parts. A percent sign or word after the
 * last box belongs to it. null without a box, or with an empty one. `tolerant` also takes a box without a closing brace.
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
 * The boxes of a reference, which nobody writes to mislead: those closer than 10 characters, or than 70 with a separator,
 * belong to the last, as in math_verify.
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

/** The contents of the last box and of those that form a list with it, with their names where all have one. */
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

/** Of nested boxes the inner one counts. */
function innermost(boxes: readonly Box[]): Box[] {
  return boxes.filter((box, i) => boxes[i + 1] === undefined || boxes[i + 1]!.start >= box.end);
}
