import { measureThinking, thinkLeftOpen } from '../../src/tokenizer';

const OPEN = 1;
const CLOSE = 2;
const END = 3;
const tokenizer = { thinkOpenId: OPEN, thinkCloseId: CLOSE };

test.each<[string, number[], boolean, number, boolean]>([
  ['closed: the ids strictly between', [OPEN, 7, 7, CLOSE, 8, END], false, 2, true],
  ['text before <think> does not count', [9, 9, OPEN, 7, CLOSE, END], false, 1, true],
  ['empty thinking', [OPEN, CLOSE, 8, END], false, 0, true],
  ['never closed: everything after <think>', [OPEN, 7, 7, 7], false, 3, false],
  ['no <think>: all ids', [8, 8, END], false, 3, false],
  ['a lone </think> opens nothing', [8, CLOSE, 8], false, 3, false],
  ['the first <think> to the next </think>', [OPEN, 7, CLOSE, OPEN, 7, 7, CLOSE], false, 1, true],
  ['a </think> before <think> is passed over', [CLOSE, OPEN, 7, CLOSE], false, 1, true],
  ['opened by the prompt', [7, 7, CLOSE, 8, END], true, 2, true],
  ['opened by the prompt, never closed', [7, 7, END], true, 3, false],
  ['opened by the prompt and again', [7, OPEN, 7, CLOSE], true, 3, true],
  ['nothing generated', [], false, 0, false],
])('%s', (_, ids, thinkOpened, thinkingTokens, thinkingClosed) => {
  expect(measureThinking(Int32Array.from(ids), tokenizer, thinkOpened)).toEqual({
    thinkingTokens,
    thinkingClosed,
  });
});

test('a vocabulary without thinking tokens: all ids, not closed', () => {
  const none = { thinkOpenId: null, thinkCloseId: null };
  expect(measureThinking(Int32Array.of(1, 2, 3), none, false)).toEqual({
    thinkingTokens: 3,
    thinkingClosed: false,
  });
});

test('ids that end inside thinking', () => {
  expect(thinkLeftOpen(Int32Array.of(9, OPEN), tokenizer)).toBe(true);
  expect(thinkLeftOpen(Int32Array.of(9, OPEN, CLOSE), tokenizer)).toBe(false);
  expect(thinkLeftOpen(Int32Array.of(9), tokenizer)).toBe(false);
});
