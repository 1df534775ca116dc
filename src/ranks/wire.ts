/**
 * Plain data as bytes and back: what the ranks tell each other. Text is JSON, numbers in arrays are raw memory, and
 * nothing of it is code: bytes from a stranger can make wrong data or an error, not more.
 *
 *     "ACR1" | bytes of the JSON, uint32 | JSON | padding | arrays, each at a multiple of 8
 *
 * What JSON has no form for is an object with the key `$`:
 *
 *     {"$": "number", "is": "NaN"}      NaN, Infinity, -Infinity, -0
 *     {"$": "none"}                     undefined
 *     {"$": "bigint", "is": "123"}
 *     {"$": "date", "is": milliseconds}
 *     {"$": "map" | "set", "is": [...]}
 *     {"$": "object", "is": [[key, value], ...]}    one that has a key `$` itself
 *     {"$": "Float64Array", "at": byte, "of": numbers}
 *     {"$": "seen", "is": 3}            the fourth object, list or array of numbers, counted as they begin
 */
import { AcoerError, badInput } from '../base/errors';

const MAGIC = Buffer.from('ACR1');
const HEADER_BYTES = 8;
const ALIGNMENT = 8;

const ARRAYS = {
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
} as const;
type ArrayName = keyof typeof ARRAYS;
type NumberArray = InstanceType<(typeof ARRAYS)[ArrayName]>;

const aligned = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

const unsendable = (what: string): AcoerError =>
  new AcoerError('BAD_ARGUMENT', `${what} cannot be sent to another process.`);

const kindOf = (value: object): string => Object.prototype.toString.call(value).slice(8, -1);

const isOrdinary = (value: number): boolean => Number.isFinite(value) && !Object.is(value, -0);

class Encoder {
  readonly parts: NumberArray[] = [];
  /** Bytes of the arrays so far. */
  bytes = 0;
  private readonly seen = new Map<object, number>();

  value(value: unknown): unknown {
    if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
    if (typeof value === 'number')
      return isOrdinary(value) ? value : { $: 'number', is: Object.is(value, -0) ? '-0' : String(value) };
    if (value === undefined) return { $: 'none' };
    if (value instanceof Date) return { $: 'date', is: this.value(value.getTime()) };
    if (typeof value === 'bigint') return { $: 'bigint', is: String(value) };
    if (typeof value !== 'object') throw unsendable(`A ${typeof value}`);
    const before = this.seen.get(value);
    if (before !== undefined) return { $: 'seen', is: before };
    this.seen.set(value, this.seen.size);
    return this.object(value);
  }

  private object(value: object): unknown {
    if (Array.isArray(value)) return Array.from(value, (item) => this.value(item));
    if (ArrayBuffer.isView(value)) return this.array(value);
    if (value instanceof Map)
      return { $: 'map', is: [...value].map((entry) => entry.map((item) => this.value(item))) };
    if (value instanceof Set) return { $: 'set', is: [...value].map((item) => this.value(item)) };
    const kind = kindOf(value);
    if (kind !== 'Object') throw unsendable(`${/^[AEIOU]/.test(kind) ? 'An' : 'A'} ${kind}`);
    const entries = Object.entries(value).map(([key, item]) => [key, this.value(item)] as const);
    return Object.hasOwn(value, '$') ? { $: 'object', is: entries } : Object.fromEntries(entries);
  }

  private array(view: ArrayBufferView): unknown {
    const name = view instanceof Buffer ? 'Uint8Array' : kindOf(view);
    if (!Object.hasOwn(ARRAYS, name)) throw unsendable(`A ${name}`);
    const array = view as NumberArray;
    const at = this.bytes;
    this.parts.push(array);
    this.bytes += aligned(array.byteLength);
    return { $: name, at, of: array.length };
  }
}

/** @throws BAD_ARGUMENT for a function, a symbol, or an object of a class without plain data */
export function encode(value: unknown): Uint8Array {
  const encoder = new Encoder();
  const json = Buffer.from(JSON.stringify(encoder.value(value)));
  const start = aligned(HEADER_BYTES + json.length);
  const bytes = Buffer.alloc(start + encoder.bytes);
  MAGIC.copy(bytes);
  bytes.writeUInt32LE(json.length, MAGIC.length);
  json.copy(bytes, HEADER_BYTES);
  let at = start;
  for (const { buffer, byteOffset, byteLength } of encoder.parts) {
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), at);
    at += aligned(byteLength);
  }
  return bytes;
}

const damaged = (what: string): AcoerError => badInput(`What a rank sent cannot be read: ${what}.`);

type Tagged = Record<string, unknown>;

class Decoder {
  private readonly seen: unknown[] = [];

  constructor(private readonly arrays: Uint8Array) {}

  value(json: unknown): unknown {
    if (typeof json !== 'object' || json === null) return json;
    if (Array.isArray(json)) {
      const list: unknown[] = this.begun([]);
      for (const item of json) list.push(this.value(item));
      return list;
    }
    const object = json as Tagged;
    if (!Object.hasOwn(object, '$')) return this.entries(Object.entries(object));
    return this.tagged(object);
  }

  private begun<T>(value: T): T {
    this.seen.push(value);
    return value;
  }

  private entries(entries: readonly (readonly [unknown, unknown])[]): object {
    const object = this.begun({});
    for (const [key, item] of entries) {
      if (typeof key !== 'string') throw damaged('a key is no text');
      // Plain assignment would make a prototype of "__proto__".
      const property = { value: this.value(item), enumerable: true, writable: true, configurable: true };
      Object.defineProperty(object, key, property);
    }
    return object;
  }

  private tagged(tagged: Tagged): unknown {
    const { $: tag, is } = tagged;
    if (tag === 'none') return undefined;
    if (tag === 'number') return numberOf(is);
    if (tag === 'bigint') return bigintOf(is);
    if (tag === 'date') return new Date(this.value(is) as number);
    if (tag === 'seen') return this.seenBefore(is);
    if (tag === 'object') return this.entries(pairsOf(is));
    if (tag === 'map') {
      const map = this.begun(new Map<unknown, unknown>());
      for (const [key, item] of pairsOf(is)) map.set(this.value(key), this.value(item));
      return map;
    }
    if (tag === 'set') {
      const set = this.begun(new Set<unknown>());
      for (const item of listOf(is)) set.add(this.value(item));
      return set;
    }
    return this.array(tag, tagged.at, tagged.of);
  }

  private seenBefore(index: unknown): unknown {
    if (Number.isInteger(index) && (index as number) >= 0 && (index as number) < this.seen.length)
      return this.seen[index as number];
    throw damaged('it names an object that did not come before');
  }

  private array(name: unknown, at: unknown, of: unknown): NumberArray {
    if (typeof name !== 'string' || !Object.hasOwn(ARRAYS, name))
      throw damaged('it has a form that is unknown');
    const type = ARRAYS[name as ArrayName];
    if (!Number.isSafeInteger(at) || !Number.isSafeInteger(of)) throw damaged('an array has no place');
    const [start, length] = [at as number, of as number];
    const bytes = length * type.BYTES_PER_ELEMENT;
    const inside =
      start >= 0 && start % ALIGNMENT === 0 && length >= 0 && start + bytes <= this.arrays.length;
    if (!inside) throw damaged('an array lies outside of what was sent');
    const array = new type(length);
    new Uint8Array(array.buffer).set(this.arrays.subarray(start, start + bytes));
    return this.begun(array);
  }
}

function numberOf(text: unknown): number {
  const value = { NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity, '-0': -0 }[String(text)];
  if (value === undefined) throw damaged('a number has a form that is unknown');
  return value;
}

function bigintOf(text: unknown): bigint {
  if (typeof text !== 'string' || !/^-?\d{1,40}$/.test(text))
    throw damaged('a whole number has another form');
  return BigInt(text);
}

function listOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw damaged('a list is missing');
  return value;
}

function pairsOf(value: unknown): readonly (readonly [unknown, unknown])[] {
  return listOf(value).map((pair) => {
    const list = listOf(pair);
    if (list.length !== 2) throw damaged('an entry is no pair');
    return [list[0], list[1]] as const;
  });
}

/** @throws BAD_INPUT for bytes that `encode` did not make */
export function decode(bytes: Uint8Array): unknown {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.length < HEADER_BYTES || !view.subarray(0, MAGIC.length).equals(MAGIC))
    throw damaged('it does not begin as it should');
  const end = HEADER_BYTES + view.readUInt32LE(MAGIC.length);
  if (end > view.length) throw damaged('it ends too early');
  let json: unknown;
  try {
    json = JSON.parse(view.toString('utf8', HEADER_BYTES, end));
    return new Decoder(view.subarray(Math.min(aligned(end), view.length))).value(json);
  } catch (error) {
    if (error instanceof AcoerError) throw error;
    // No JSON, or so deep that it does not fit on the stack.
    throw damaged(error instanceof SyntaxError ? 'it is no JSON' : 'it is nested too deeply');
  }
}

/** A copy as another process gets it. @throws BAD_ARGUMENT as `encode` */
export const asSent = <T>(value: T): T => decode(encode(value)) as T;
