import type { Outside, Thinking } from '../base/types';
import type { Tokenizer } from './index';

type ThinkIds = Pick<Tokenizer, 'thinkOpenId' | 'thinkCloseId'>;

/** No token has this id, so a search for it finds nothing. */
const NO_ID = -1;

/** A block: position of its first id, and of its `</think>` or the end of the ids. */
interface Block {
  start: number;
  end: number;
  closed: boolean;
}

/** The blocks in order. A `<think>` inside a block is part of it; a `</think>` outside opens nothing. */
function blocksOf(ids: Int32Array, tokenizer: ThinkIds, thinkOpened: boolean): Block[] {
  const [openId, closeId] = [tokenizer.thinkOpenId ?? NO_ID, tokenizer.thinkCloseId ?? NO_ID];
  const blocks: Block[] = [];
  let start = thinkOpened ? 0 : ids.indexOf(openId) + 1;
  while (start > 0 || (thinkOpened && blocks.length === 0)) {
    const close = ids.indexOf(closeId, start);
    const end = close < 0 ? ids.length : close;
    blocks.push({ start, end, closed: close >= 0 });
    start = close < 0 ? 0 : ids.indexOf(openId, close + 1) + 1;
  }
  return blocks;
}

/**
 * Counts the ids of a completion by kind. `thinkingTokens` counts the first block: if closed, the ids
 * strictly between the first `<think>` and the next `</think>`; if opened but never closed, all ids after
 * `<think>`; without a `<think>`, all ids, and the block is not closed.
 * @param ids the completion, including its stop id
 * @param thinkOpened the prompt ended inside `<think>`, so thinking starts at the first id
 */
export function measureCompletion(
  ids: Int32Array,
  tokenizer: ThinkIds,
  thinkOpened: boolean,
): Thinking & Required<Outside> {
  const [first, ...later] = blocksOf(ids, tokenizer, thinkOpened);
  if (first === undefined) {
    return { thinkingTokens: ids.length, thinkingClosed: false, laterThinkingTokens: 0, answerTokens: 0 };
  }
  const thinkingTokens = first.end - first.start;
  const laterThinkingTokens = later.reduce((sum, { start, end }) => sum + end - start, 0);
  const closed = [first, ...later].filter((block) => block.closed).length;
  const tags = later.length + closed + (thinkOpened ? 0 : 1);
  return {
    thinkingTokens,
    thinkingClosed: first.closed,
    laterThinkingTokens,
    answerTokens: ids.length - thinkingTokens - laterThinkingTokens - tags,
  };
}

/** Only the first block, as the paper and its authors' code count. Same parameters as `measureCompletion`. */
export function measureThinking(ids: Int32Array, tokenizer: ThinkIds, thinkOpened: boolean): Thinking {
  const { thinkingTokens, thinkingClosed } = measureCompletion(ids, tokenizer, thinkOpened);
  return { thinkingTokens, thinkingClosed };
}

/** Whether these ids end inside a `<think>` that they opened. */
export function thinkLeftOpen(ids: Int32Array, tokenizer: ThinkIds): boolean {
  if (tokenizer.thinkOpenId === null) return false;
  const open = ids.lastIndexOf(tokenizer.thinkOpenId);
  return open >= 0 && (tokenizer.thinkCloseId === null || ids.lastIndexOf(tokenizer.thinkCloseId) < open);
}
