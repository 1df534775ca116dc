import { resolve } from 'node:path';
import { RandomStream } from '../../src/data/random';
import { answer, drawChain, isHeldOut, mod10, question } from '../../src/data/tiny/task';
import { packSequences } from '../../src/base/packing';
import { bucket, drawDrill, drawExample, type Example } from '../../scripts/tiny-model/batches';
import { DOUBTING, drawCompletion, PLAIN, VERBOSE } from '../../scripts/tiny-model/corpus';
import { countLines } from '../../scripts/tiny-model/lines';
import { loadTokenizer, type Tokenizer } from '../../src/tokenizer';
import { verifyCompletion } from '../../packages/verify/src';

let tokenizer: Tokenizer;
beforeAll(async () => {
  tokenizer = await loadTokenizer(resolve(__dirname, '../../assets/tiny'));
});

const valueOf = (chain: string): number =>
  mod10([...chain.matchAll(/[+-]?\d/g)].reduce((sum, [term]) => sum + Number(term), 0));

test.each(Object.entries({ PLAIN, DOUBTING, VERBOSE }))(
  '%s traces end in the right answer and mend every slip',
  (_, style) => {
    const random = new RandomStream(7, 'test corpus');
    for (let i = 0; i < 120; i++) {
      const chain = drawChain(random, 1 + (i % 5));
      const text = drawCompletion(random, style, chain);
      expect(verifyCompletion(text, String(answer(chain))).status).toBe('correct');
      for (const line of text.split('\n').filter((part) => part.includes('='))) {
        const [left, result] = line.split(', wait ').at(-1)!.split('=');
        expect(Number(result)).toBe(valueOf(left!));
      }
    }
  },
);

test('examples never contain a held-out question, and every character has a token', () => {
  const random = new RandomStream(8, 'test corpus');
  for (let i = 0; i < 60; i++) {
    const { promptIds, completionIds, mask } = drawExample(tokenizer, VERBOSE, random);
    const prompt = tokenizer.decode(promptIds);
    const chain = prompt.match(/(\d)((?:[+-]\d)+) mod 10\?/)!;
    const terms = [...chain[2]!.matchAll(/[+-]\d/g)].map(([term]) => Number(term));
    const drawn = { level: terms.length / 2, start: Number(chain[1]), terms };
    expect(prompt).toContain(question(drawn));
    expect(isHeldOut(drawn)).toBe(false);
    expect(tokenizer.decode(completionIds)).toMatch(/^<think>\n[^]*<\/think>\n\n\\boxed\{\d\}<\|im_end\|>$/);
    expect(mask).toHaveLength(completionIds.length);
  }
});

test('only the results of a drill are trained on', () => {
  const random = new RandomStream(9, 'test corpus');
  const { completionIds, mask } = drawDrill(tokenizer, { operationsPerLine: [1, 1, 1], lines: 5 }, random);
  const lines = tokenizer.decode(completionIds).trim().split('\n');
  const results = tokenizer.decode(completionIds.filter((_, i) => mask[i] === 1));
  expect(results).toBe(lines.map((line) => String(valueOf(line.split('=')[0]!))).join(''));
});

test('batches have each example once, in nearly equal numbers of tokens', () => {
  const random = new RandomStream(10, 'test corpus');
  const example = (length: number): Example => ({
    promptIds: new Int32Array(10),
    completionIds: new Int32Array(length),
    mask: new Uint8Array(length).fill(1),
  });
  const pool = Array.from({ length: 300 }, () => example(random.integer(5, 200)));
  const batches = bucket(pool, 2000, random);
  expect(new Set(batches.flat())).toEqual(new Set(pool));
  for (const batch of batches) {
    const packed = packSequences(batch);
    expect(packed.ids.length).toBeGreaterThan(1500);
    expect(packed.ids.length).toBeLessThan(2500);
    expect(packed.offsets.at(-1)).toBe(packed.ids.length);
    const masks = batch.reduce((sum, { mask }) => sum + mask.length, 0);
    expect(masks).toBe(packed.ids.length - 10 * batch.length);
  }
});

test('lines are counted by number of operations, once each, by their first result', () => {
  const counts = countLines([
    '<think>\n6-3=3\n3+4=8, wait 3+4=7\n</think>\n\n\\boxed{7}',
    'okay, i need to compute 2-9-1+4.\n2-9-1+4=6\n',
  ]);
  expect(counts).toEqual([
    { correct: 1, total: 2 },
    { correct: 0, total: 0 },
    { correct: 1, total: 1 },
  ]);
});
