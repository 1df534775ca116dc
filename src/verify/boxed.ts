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
  /** false: the text ended inside it, or it has no braces (`\boxed 5`). */
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

/** `\boxed 5`, or a box the text ends in. */
function looseBox(text: string): Box | null {
  const start = Math.max(text.lastIndexOf('\\boxed'), text.lastIndexOf('\\fbox'));
  if (start < 0) return null;
  const content = text
    .slice(start)
    .replace(/^\\f?box(?:ed)?\s*\{?/, '')
    .trim();
  return { start, end: text.length, content, complete: false };
}

const SEPARATOR = /\b(?:and|or)\b|[,;]/;

/** Directly after a box, past its closing delimiters. */
const PERCENT_AFTER = /^[\s}$]*(?:\\\)|\\\])?\s*(?:\\?%|percent(?:age)?\b|pct\b)/i;

/**
 * The boxed answer: the last box, with those before it that belong to it: closer than 10 characters, or closer than 70
 * with `and`, `or`, a comma or a semicolon between and other content. Joined by commas; a percent sign or word after the
 * last box belongs to it. null without a box, or with an empty one. `tolerant` also takes a box without a closing brace.
 */
export function boxedAnswer(text: string, tolerant: boolean): string | null {
  const boxes = innermost(completeBoxes(text));
  const loose = tolerant ? looseBox(text) : null;
  if (loose !== null && loose.start >= (boxes.at(-1)?.end ?? 0)) return loose.content || null;
  const last = boxes.at(-1);
  if (last === undefined) return null;
  const kept = [last];
  for (const box of boxes.slice(0, -1).reverse()) {
    const between = text.slice(box.end, kept[0]!.start);
    const near = between.length < 10;
    const belongs =
      near || (between.length < 70 && SEPARATOR.test(between) && box.content !== kept[0]!.content);
    if (!belongs) break;
    kept.unshift(box);
  }
  const contents = kept.map((box) => box.content).filter((content, i, all) => content !== all[i - 1]);
  const percent = PERCENT_AFTER.test(text.slice(last.end, last.end + 24)) ? '\\%' : '';
  return contents.join(',') + percent || null;
}

/** Of nested boxes the inner one counts. */
function innermost(boxes: readonly Box[]): Box[] {
  return boxes.filter((box, i) => boxes[i + 1] === undefined || boxes[i + 1]!.start >= box.end);
}
