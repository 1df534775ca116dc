import type { Thinking } from '../types';
import type { Tokenizer } from './index';

type ThinkIds = Pick<Tokenizer, 'thinkOpenId' | 'thinkCloseId'>;

/**
 * Thinking tokens of a completion. Closed: the ids strictly between the first `<think>` and the next `</think>`.
 * Opened and never closed: all ids after `<think>`. No `<think>`: all ids, not closed.
 * @param ids the completion, its stop id included
 * @param thinkOpened the prompt already ended inside `<think>`: thinking starts at the first id
 */
export function measureThinking(ids: Int32Array, tokenizer: ThinkIds, thinkOpened: boolean): Thinking {
  const open = tokenizer.thinkOpenId === null ? -1 : ids.indexOf(tokenizer.thinkOpenId);
  if (!thinkOpened && open < 0) return { thinkingTokens: ids.length, thinkingClosed: false };
  const start = thinkOpened ? 0 : open + 1;
  const close = tokenizer.thinkCloseId === null ? -1 : ids.indexOf(tokenizer.thinkCloseId, start);
  return { thinkingTokens: (close < 0 ? ids.length : close) - start, thinkingClosed: close >= 0 };
}

/** Whether these ids end inside a `<think>` of their own. */
export function thinkLeftOpen(ids: Int32Array, tokenizer: ThinkIds): boolean {
  if (tokenizer.thinkOpenId === null) return false;
  const open = ids.lastIndexOf(tokenizer.thinkOpenId);
  return open >= 0 && (tokenizer.thinkCloseId === null || ids.lastIndexOf(tokenizer.thinkCloseId) < open);
}
