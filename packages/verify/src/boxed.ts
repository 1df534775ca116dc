/** Finds boxed answers in a completion, in one pass, so that the cost of hostile text is linear. */

const CLOSE_THINK = '</think>';
/** `<think>` at the start of a line or after a sentence or tag; elsewhere it is only named. */
const OPEN_THINK = /(?<=^|[\n.!?:;>*])[ \t]*<think>/g;

const TAG = new RegExp(`${OPEN_THINK.source}|${CLOSE_THINK}`, 'g');

/** The tags in `text` that open or close thinking, in order: where each begins and ends. */
export function thinkTags(text: string): { opens: boolean; start: number; end: number }[] {
  return Array.from(text.matchAll(TAG), ({ 0: found, index }) => {
    const tag = found.trimStart();
    const end = index + found.length;
    return { opens: tag !== CLOSE_THINK, start: end - tag.length, end };
  });
}

/** The text in which an answer counts. */
export interface Region {
  text: string;
  /** The text ends inside thinking, and `text` is all of it that is not closed thinking. */
  open: boolean;
}

/**
 * The text after the thinking: after the first `</think>`, without blocks opened later. A box inside closed
 * thinking is a thought, not an answer.
 * @param thinkOpened the prompt opened `<think>`
 */
export function answerRegion(text: string, thinkOpened = false): Region {
  const close = text.indexOf(CLOSE_THINK);
  if (close < 0) return { text, open: thinkOpened || text.search(OPEN_THINK) >= 0 };
  const rest = text.slice(close + CLOSE_THINK.length);
  let kept = '';
  let at = 0;
  for (const { index } of rest.matchAll(OPEN_THINK)) {
    if (index < at) continue;
    kept += rest.slice(at, index);
    const end = rest.indexOf(CLOSE_THINK, index);
    if (end < 0) return { text: kept + rest.slice(index), open: true };
    at = end + CLOSE_THINK.length;
  }
  return { text: kept + rest.slice(at), open: false };
}

export interface Box {
  /** Position of `\boxed` in the text. */
  start: number;
  /** Position after the closing brace. */
  end: number;
  /** Trimmed. */
  content: string;
}

/** A box with its brace (models sometimes double the backslash), an escaped character, or a brace. */
const BRACES = /\\+(?:boxed|fbox)\s*\{|\\[^]|[{}]/g;

/** All boxes with both braces, in order of their start. `\{` and `\}` are text. */
export const completeBoxes = (text: string): Box[] => boxesIn(text).boxes;

/** Whether the text ends inside a box: then it has no answer, whatever else it contains. */
export const endsInBox = (text: string): boolean => text.includes('box') && boxesIn(text).cutOff;

function boxesIn(text: string): { boxes: Box[]; cutOff: boolean } {
  const open: { start: number; content: number; isBox: boolean }[] = [];
  const boxes: Box[] = [];
  for (const { 0: token, index } of text.matchAll(BRACES)) {
    if (token === '}') {
      const group = open.pop();
      if (group?.isBox) {
        boxes.push({ start: group.start, end: index + 1, content: text.slice(group.content, index).trim() });
      }
    } else if (token.endsWith('{') && token !== '\\{') {
      open.push({ start: index, content: index + token.length, isBox: token.length > 1 });
    }
  }
  return { boxes: boxes.sort((a, b) => a.start - b.start), cutOff: open.some(({ isBox }) => isBox) };
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

/** What a box without braces holds up to the end of its formula: a number or formula, no words. */
const LOOSE = /^\\f?box(?:ed)?(?![a-zA-Z])\s*([^$\n]{1,256}?)\s*(?:\\\)|\\\]|[$\n]|$)/;

/** A box without braces, `\boxed 5`, after all complete boxes. A `\boxed` named in a sentence is none. */
function looseBox(text: string, before: readonly Box[]): Box | null {
  const start = Math.max(text.lastIndexOf('\\boxed'), text.lastIndexOf('\\fbox'));
  if (start < (before.at(-1)?.end ?? 0) || OPENED.test(text.slice(start, start + 32))) return null;
  const content = (LOOSE.exec(text.slice(start, start + 300))?.[1] ?? '').replace(/[.,;:\s]+$/, '');
  const isFormula = /^[-+\d.(\\a-zA-Z]/.test(content) && !/(?<![\\a-zA-Z])[a-zA-Z]{2}/.test(content);
  return isFormula ? { start, end: text.length, content } : null;
}

const OPENED = /^\\f?box(?:ed)?\s*\{/;

/** What may stand between the boxes of one list, also `\text{for part (a) and}` inside a formula. */
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
  const percent = PERCENT_AFTER.test(text.slice(last.end, last.end + 24)) ? '\\%' : '';
  return joined(listOf(text, boxes)) + percent || null;
}

/** A list of the contents; one that is repeated at once counts once. */
const joined = (contents: readonly string[]): string =>
  contents.filter((content, i) => content !== contents[i - 1]).join(',');

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
  if (first === boxes.length - 1) return boxedAnswer(text, true);
  return joined(boxes.slice(first).map((box) => box.content)) || null;
}

/** The contents of the last box and of those that form a list with it, with their names if all have one. */
function listOf(text: string, boxes: readonly Box[]): string[] {
  const plain = endOfList(text, boxes, () => '');
  const list = plain.length > 1 ? plain : endOfList(text, boxes, (box) => labelOf(text, box));
  return list.length > 1 ? list : plain;
}

/** The last box's content and those that only `BETWEEN` parts from it, each with its label, until one has none. */
function endOfList(text: string, boxes: readonly Box[], label: (box: Box) => string | null): string[] {
  const contents: string[] = [];
  let next: number | null = null;
  for (const box of boxes.toReversed()) {
    const own = label(box);
    if (own === null || (next !== null && !isBetween(text.slice(box.end, next)))) break;
    contents.unshift(own + box.content);
    next = box.start - own.length;
  }
  return contents;
}

const isBetween = (text: string): boolean => text.length <= MAX_BETWEEN && BETWEEN.test(text);

function labelOf(text: string, box: Box): string | null {
  return LABEL.exec(text.slice(Math.max(0, box.start - 40), box.start))?.[0] ?? null;
}

/** Drops boxes that contain another box. */
function innermost(boxes: readonly Box[]): Box[] {
  return boxes.filter((box, i) => boxes[i + 1] === undefined || boxes[i + 1]!.start >= box.end);
}
