/** What one rank sends the others get, and bytes of a stranger give an error, never more. */
import { errorCode } from '../../src/base/errors';
import { streamSeed, uniformStream } from '../../src/base/rng';
import { decode, encode } from '../../src/ranks/wire';

const shared = { ids: Int32Array.of(1, -2, 3) };
const circle: { me?: unknown } = {};
circle.me = circle;

test.each<[string, unknown]>([
  ['plain data', { a: [1, 'text', true, null, { b: 'ä\u0000😀' }], c: '' }],
  ['numbers', [NaN, Infinity, -Infinity, -0, 0, 1e308, 5e-324, 2 ** 53]],
  ['what JSON drops', { a: undefined, b: [undefined], c: 12345678901234567890n, d: new Date(7) }],
  [
    'arrays',
    {
      a: Float64Array.of(NaN, -0, 1e-300),
      b: new Uint8Array(3).fill(255),
      c: BigInt64Array.of(-1n),
      d: new Int16Array(),
    },
  ],
  [
    'collections',
    new Map<unknown, unknown>([
      [{ k: 1 }, new Set(['a', NaN])],
      ['b', new Map()],
    ]),
  ],
  ['keys of its own', { $: 'number', is: 'NaN', ['__proto__x']: 1 }],
  ['a key that is a prototype elsewhere', JSON.parse('{"__proto__": {"a": 1}, "constructor": 2}')],
])('%s', (_, value) => {
  expect(decode(encode(value))).toEqual(value);
});

test('objects that are one stay one, also in a circle', () => {
  const [a, b] = decode(encode([shared, shared])) as [typeof shared, typeof shared];
  expect(a).toBe(b);
  expect(a.ids).toEqual(shared.ids);
  const again = decode(encode(circle)) as typeof circle;
  expect(again.me).toBe(again);
  const polluted = decode(encode(JSON.parse('{"__proto__": {"a": 1}}'))) as { a?: number };
  expect(polluted.a).toBeUndefined();
});

test('a part of an array is sent as that part', () => {
  const part = new Float64Array([0, 1, 2, 3]).subarray(1, 3);
  expect(decode(encode(part))).toEqual(Float64Array.of(1, 2));
  expect(decode(encode(Buffer.from('xyz').subarray(1)))).toEqual(Uint8Array.from(Buffer.from('yz')));
});

test.each([
  ['a function', () => 1],
  ['a symbol', Symbol('s')],
  ['a promise', Promise.resolve()],
  ['an error', new Error('x')],
])('%s is not sent', (_, value) => {
  expect(() => encode({ value })).toThrow(expect.objectContaining({ code: 'BAD_ARGUMENT' }));
});

const json = (text: string) => {
  const bytes = Buffer.alloc(8 + text.length);
  bytes.write('ACR1');
  bytes.writeUInt32LE(text.length, 4);
  bytes.write(text, 8);
  return bytes;
};

test.each([
  ['nothing', Buffer.alloc(0)],
  ['another beginning', Buffer.from('PK\u0003\u0004 and more')],
  ['a length beyond the end', Buffer.from('ACR1\xff\xff\xff\x7f{}', 'latin1')],
  ['no JSON', json('{')],
  ['an array outside', json('{"$":"Float64Array","at":0,"of":1}')],
  ['an array before the beginning', json('{"$":"Uint8Array","at":-8,"of":1}')],
  ['an array of many numbers', json('{"$":"Uint8Array","at":0,"of":9007199254740991}')],
  ['an unknown form', json('{"$":"Function","at":0,"of":1}')],
  ['a form of objects', json('{"$":"toString","at":0,"of":0}')],
  ['an object that is yet to come', json('[{"$":"seen","is":7}]')],
  ['no pairs', json('{"$":"map","is":[[1]]}')],
  ['a number that is none', json('{"$":"number","is":"7"}')],
  ['depth', json('['.repeat(200_000) + ']'.repeat(200_000))],
])('%s is an error', (_, bytes) => {
  expect(() => decode(bytes)).toThrow(expect.objectContaining({ code: 'BAD_INPUT' }));
});

test('bytes that were changed at random give data or the one error', () => {
  const good = encode([{ a: Float64Array.of(1, 2), b: [shared, shared, NaN, 3n] }, new Map([[1, 'x']])]);
  let refused = 0;
  for (let run = 0; run < 5_000; run++) {
    const random = uniformStream(streamSeed(7, 'wire', run));
    const bytes = Buffer.from(good);
    for (let i = 0; i <= run % 4; i++)
      bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
    const cut = run % 5 === 0 ? bytes.subarray(0, Math.floor(random() * bytes.length)) : bytes;
    try {
      decode(cut);
    } catch (error) {
      refused++;
      expect(errorCode(error)).toBe('BAD_INPUT');
    }
  }
  expect(refused).toBeGreaterThan(1_000);
});
