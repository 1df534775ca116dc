import { thinkTags } from '#verify/boxed';
import type { Outside, Thinking } from '../base/types';
import type { Tokenizer } from './index';

type ThinkTokenizer = Pick<Tokenizer, 'decode' | 'thinkOpenId' | 'thinkCloseId'>;

/** A `<think>` or `</think>`, and the ids that it takes: `from` up to, not including, `to`. */
interface Tag {
  opens: boolean;
  from: number;
  to: number;
}

/** What each id reads as by itself, by tokenizer. Half of a character is no part of a tag. */
const PIECES = new WeakMap<ThinkTokenizer, Map<number, string>>();

function pieceOf(id: number, tokenizer: ThinkTokenizer): string {
  let pieces = PIECES.get(tokenizer);
  if (pieces === undefined) PIECES.set(tokenizer, (pieces = new Map<number, string>()));
  let piece = pieces.get(id);
  if (piece === undefined) pieces.set(id, (piece = tokenizer.decode([id])));
  return piece;
}

/** Tags that are ordinary text, often of several ids. An id that a tag shares with its neighbour is the tag's. */
function writtenTags(ids: Int32Array, tokenizer: ThinkTokenizer): Tag[] {
  const pieces = Array.from(ids, (id) => pieceOf(id, tokenizer));
  let [at, end] = [-1, 0];
  /** The id that has the character at `position`, which must not go back. */
  const idAt = (position: number): number => {
    while (end <= position) end += pieces[++at]!.length;
    return at;
  };
  return thinkTags(pieces.join('')).map(({ opens, start, end: tagEnd }) => ({
    opens,
    from: idAt(start),
    to: idAt(tagEnd - 1) + 1,
  }));
}

function tagsOf(ids: Int32Array, tokenizer: ThinkTokenizer): Tag[] {
  const { thinkOpenId, thinkCloseId } = tokenizer;
  if (thinkOpenId === null || thinkCloseId === null) return writtenTags(ids, tokenizer);
  const tags: Tag[] = [];
  ids.forEach((id, i) => {
    if (id === thinkOpenId || id === thinkCloseId)
      tags.push({ opens: id === thinkOpenId, from: i, to: i + 1 });
  });
  return tags;
}

/** A block: position of its first id, and of its `</think>` or the end of the ids. */
interface Block {
  start: number;
  end: number;
  closed: boolean;
}

/**
 * The blocks in order, and how many ids their tags take. A `<think>` inside a block is part of it; a `</think>`
 * outside opens nothing.
 */
function blocksOf(ids: Int32Array, tokenizer: ThinkTokenizer, thinkOpened: boolean) {
  const blocks: Block[] = [];
  let start = thinkOpened ? 0 : null;
  let [tagIds, lastTo] = [0, 0];
  for (const { opens, from, to } of tagsOf(ids, tokenizer)) {
    if (opens !== (start === null)) continue;
    if (start !== null) blocks.push({ start, end: Math.max(start, from), closed: true });
    start = opens ? to : null;
    tagIds += to - Math.max(from, lastTo);
    lastTo = to;
  }
  if (start !== null) blocks.push({ start, end: ids.length, closed: false });
  return { blocks, tagIds };
}

/**
 * Counts the ids of a completion by kind. `thinkingTokens` counts the first block: if closed, the ids
 * strictly between the first `<think>` and the next `</think>`; if opened but never closed, all ids after
 * `<think>`; without a `<think>`, all ids, and the block is not closed. A vocabulary without tokens for the tags
 * writes them as text.
 * @param ids the completion, including its stop id
 * @param thinkOpened the prompt ended inside `<think>`, so thinking starts at the first id
 */
export function measureCompletion(
  ids: Int32Array,
  tokenizer: ThinkTokenizer,
  thinkOpened: boolean,
): Thinking & Required<Outside> {
  const { blocks, tagIds } = blocksOf(ids, tokenizer, thinkOpened);
  const [first, ...later] = blocks;
  if (first === undefined) {
    return { thinkingTokens: ids.length, thinkingClosed: false, laterThinkingTokens: 0, answerTokens: 0 };
  }
  const thinkingTokens = first.end - first.start;
  const laterThinkingTokens = later.reduce((sum, { start, end }) => sum + end - start, 0);
  return {
    thinkingTokens,
    thinkingClosed: first.closed,
    laterThinkingTokens,
    answerTokens: ids.length - thinkingTokens - laterThinkingTokens - tagIds,
  };
}

/** Only the first block, as the paper and its authors' code count. Same parameters as `measureCompletion`. */
export function measureThinking(ids: Int32Array, tokenizer: ThinkTokenizer, thinkOpened: boolean): Thinking {
  const { thinkingTokens, thinkingClosed } = measureCompletion(ids, tokenizer, thinkOpened);
  return { thinkingTokens, thinkingClosed };
}

/** Whether these ids end inside a `<think>` that they opened. */
export const thinkLeftOpen = (ids: Int32Array, tokenizer: ThinkTokenizer): boolean =>
  tagsOf(ids, tokenizer).at(-1)?.opens === true;
