import { Readable } from 'node:stream';

import { InOrder, parseJsonLines, Spool } from '../../src/cli/jsonl';
import type { JsonLine } from '../../src/cli/jsonl';
import { linesFile } from '../helpers/cli';

/** `text` split into chunks of `size` bytes. */
function chunks(text: string | Buffer, size: number): AsyncIterable<Buffer> {
  const bytes = Buffer.from(text);
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) parts.push(bytes.subarray(at, at + size));
  return Readable.from(parts);
}

async function all(source: AsyncIterable<Buffer>): Promise<JsonLine[]> {
  const lines: JsonLine[] = [];
  for await (const line of parseJsonLines(source)) lines.push(line);
  return lines;
}

describe('parseJsonLines', () => {
  const text = '\uFEFF{"a":"grüße"}\r\n\n  {"a":"\\u2028 和"}\n[1]';

  test.each([1, 2, 3, 7, 1000])('lines are reassembled from chunks of %d bytes', async (size) => {
    expect(await all(chunks(text, size))).toEqual([
      { line: 1, value: { a: 'grüße' } },
      { line: 3, value: { a: '\u2028 和' } },
      { line: 4, value: [1] },
    ]);
  });

  test('a Unicode line separator inside a JSON string does not end the line', async () => {
    expect(await all(chunks('{"a":"x\u2028y"}\n', 5))).toEqual([{ line: 1, value: { a: 'x\u2028y' } }]);
  });

  test('an empty input has no lines', async () => {
    expect(await all(chunks('', 1))).toEqual([]);
    expect(await all(chunks('\n\n', 1))).toEqual([]);
  });

  test.each([
    ['not JSON', '{"a":1}\n\n{"a":', /^line 3: not JSON/],
    ['not UTF-8', Buffer.from([0x7b, 0x7d, 0x0a, 0xff, 0x0a]), /^line 2: not UTF-8/],
  ])('%s is rejected with its line number', async (_, input, message) => {
    await expect(all(chunks(input, 4))).rejects.toMatchObject({
      code: 'BAD_INPUT',
      message: expect.stringMatching(message) as string,
    });
  });
});

describe('Spool', () => {
  test('returns the checked values in order, beyond its buffer size', async () => {
    const long = 'x'.repeat(2000);
    const path = linesFile(Array.from({ length: 2000 }, (_, n) => ({ n, long })));
    await using spool = await Spool.create<{ n: number; long: string }>();
    await spool.fill(path, ({ value }) => value as { n: number; long: string });
    expect(spool.count).toBe(2000);
    for (let pass = 0; pass < 2; pass++) {
      let next = 0;
      for await (const { n } of spool.read()) expect(n).toBe(next++);
      expect(next).toBe(2000);
    }
  });

  test('an empty file is an empty spool', async () => {
    await using spool = await Spool.create<unknown>();
    await spool.fill(linesFile([]), ({ value }) => value);
    for await (const value of spool.read()) throw new Error(`unexpected ${String(value)}`);
    expect(spool.count).toBe(0);
  });

  test.each([
    ['/no/such/file', /^Cannot read \/no\/such\/file: no such file$/],
    ['/', /is a folder/],
  ])('%s is bad input', async (path, message) => {
    await using spool = await Spool.create<unknown>();
    await expect(spool.fill(path, ({ value }) => value)).rejects.toMatchObject({
      code: 'BAD_INPUT',
      message: expect.stringMatching(message) as string,
    });
  });
});

describe('InOrder', () => {
  test('emits as early as the order allows', () => {
    const seen: string[] = [];
    const order = new InOrder<string>((value) => seen.push(value));
    order.add(1, 'b');
    expect(seen).toEqual([]);
    order.add(0, 'a');
    expect(seen).toEqual(['a', 'b']);
    order.add(3, 'd');
    order.add(2, 'c');
    expect(seen).toEqual(['a', 'b', 'c', 'd']);
  });

  test('flush skips results that never came', () => {
    const seen: string[] = [];
    const order = new InOrder<string>((value) => seen.push(value));
    order.add(5, 'f');
    order.add(3, 'd');
    order.flush();
    expect(seen).toEqual(['d', 'f']);
  });
});
