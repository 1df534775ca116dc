import { measureCompletion, measureThinking, thinkLeftOpen } from '../../src/tokenizer';

const OPEN = 1;
const CLOSE = 2;
const END = 3;
const decode = () => 'word ';
const tokenizer = { decode, thinkOpenId: OPEN, thinkCloseId: CLOSE };

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
  const none = { decode, thinkOpenId: null, thinkCloseId: null };
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

test.each<[string, number[], boolean, [first: number, later: number, answer: number]]>([
  ['one block', [OPEN, 7, 7, CLOSE, 8, END], false, [2, 0, 2]],
  ['an empty block with the reasoning after it', [OPEN, CLOSE, 9, 9, 9, 7, END], false, [0, 0, 5]],
  ['a second block', [OPEN, 9, CLOSE, OPEN, 9, 9, 9, 9, CLOSE, 7], false, [1, 4, 1]],
  [
    'a third, and text between them',
    [OPEN, CLOSE, 8, OPEN, 7, CLOSE, 8, OPEN, 7, 7, CLOSE],
    false,
    [0, 3, 2],
  ],
  ['a second block that never closes', [OPEN, 7, CLOSE, 8, OPEN, 7, 7], false, [1, 2, 1]],
  ['text before the first block', [8, 8, OPEN, 7, CLOSE, END], false, [1, 0, 3]],
  ['a <think> inside a block is part of it', [OPEN, 7, OPEN, 7, CLOSE, 8], false, [3, 0, 1]],
  ['a lone </think> after a block is answer', [OPEN, 7, CLOSE, 8, CLOSE, 8], false, [1, 0, 3]],
  ['no block: all of it is thinking', [8, 8, END], false, [3, 0, 0]],
  ['opened by the prompt, and a second block', [7, CLOSE, 8, OPEN, 7, 7, CLOSE, END], true, [1, 2, 2]],
])('every id of a completion is counted once: %s', (_, ids, thinkOpened, [first, later, answer]) => {
  const measured = measureCompletion(Int32Array.from(ids), tokenizer, thinkOpened);
  expect(measured).toMatchObject({
    thinkingTokens: first,
    laterThinkingTokens: later,
    answerTokens: answer,
  });
  expect(measureThinking(Int32Array.from(ids), tokenizer, thinkOpened)).toEqual({
    thinkingTokens: first,
    thinkingClosed: measured.thinkingClosed,
  });
});
