/** Reads the header of a GGUF file, which is untrusted: every length is checked against the file and a limit. */
import { shownJson } from '../base/json';
import type { TensorPlace } from '../engine/types';
import { GGUF_TENSOR_TYPES, ggufBytes, type GgufTensorType } from './gguf';
import type { Complaint } from './safetensors';

export type GgufScalar = number | boolean | string;

export interface GgufHeader {
  /** Arrays are checked and skipped: those of a model describe its tokenizer. */
  keys: Map<string, GgufScalar>;
  /** Short lists of texts; null for all other arrays, which are skipped. */
  arrays: ReadonlyMap<string, readonly string[] | null>;
  /** In file order, with the rows first. */
  tensors: TensorPlace[];
}

/** A header with the tokens and merges of the largest vocabularies has some 12 MB. */
export const MAX_GGUF_HEADER_BYTES = 1 << 26;
const MAX_KEYS = 1 << 12;
const MAX_TENSORS = 5_000;
const MAX_DIMENSIONS = 4;
const MAX_NAME_BYTES = 500;

/** More of the file is needed than there is of it in memory. */
export class MoreNeeded extends Error {}

const [U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64] = Array(13).keys();
const FIXED_BYTES: ReadonlyMap<number, number> = new Map([
  [U8!, 1],
  [I8!, 1],
  [BOOL!, 1],
  [U16!, 2],
  [I16!, 2],
  [U32!, 4],
  [I32!, 4],
  [F32!, 4],
  [U64!, 8],
  [I64!, 8],
  [F64!, 8],
]);

/** Longer lists of texts, such as vocabularies, are skipped. */
const MAX_SHORT_LIST = 64;

class Cursor {
  at = 0;

  constructor(
    private readonly bytes: Buffer,
    /** Whether `bytes` is all that there is. */
    private readonly whole: boolean,
    readonly bad: Complaint,
  ) {}

  /** The start of the next `count` bytes. */
  take(count: number): number {
    const start = this.at;
    if (start + count > this.bytes.length) {
      if (!this.whole) throw new MoreNeeded();
      throw this.bad('it is cut off in its header');
    }
    this.at += count;
    return start;
  }

  u32(): number {
    return this.bytes.readUInt32LE(this.take(4));
  }

  /** A count or a size. */
  count(what: string, most: number): number {
    const value = this.bytes.readBigUInt64LE(this.take(8));
    if (value > BigInt(most)) throw this.bad(`it has ${value} ${what}; the limit is ${most}`);
    return Number(value);
  }

  text(most: number): string {
    const length = this.count('bytes in a name or text', most);
    const start = this.take(length);
    return this.bytes.toString('utf8', start, start + length);
  }

  private array(): string[] | null {
    const type = this.u32();
    const items = this.count('items in an array', 1 << 24);
    if (type === STRING && items <= MAX_SHORT_LIST)
      return Array.from({ length: items }, () => this.text(1 << 20));
    const bytes = FIXED_BYTES.get(type);
    if (bytes !== undefined) this.take(items * bytes);
    else if (type === STRING) for (let i = 0; i < items; i++) this.take(this.count('bytes', 1 << 20));
    else throw this.bad(`it has an array of type ${type}`);
    return null;
  }

  value(): GgufScalar | string[] | null {
    const type = this.u32();
    if (type === ARRAY) return this.array();
    if (type === STRING) return this.text(1 << 24);
    const size = FIXED_BYTES.get(type);
    if (size === undefined) throw this.bad(`it has a value of the unknown type ${type}`);
    const at = this.take(size);
    if (type === BOOL) return this.bytes[at] !== 0;
    if (type === F32) return this.bytes.readFloatLE(at);
    if (type === F64) return this.bytes.readDoubleLE(at);
    if (type === U64) return Number(this.bytes.readBigUInt64LE(at));
    if (type === I64) return Number(this.bytes.readBigInt64LE(at));
    const signed = type === I8 || type === I16 || type === I32;
    return signed ? this.bytes.readIntLE(at, size) : this.bytes.readUIntLE(at, size);
  }
}

const TYPE_NAMES: ReadonlyMap<number, GgufTensorType> = new Map(
  Object.entries(GGUF_TENSOR_TYPES).map(([name, number]) => [number, name as GgufTensorType]),
);

/** With `begin` and `end` from the start of the data. */
function tensorOf(cursor: Cursor): TensorPlace {
  const name = cursor.text(MAX_NAME_BYTES);
  const dimensions = cursor.u32();
  if (dimensions > MAX_DIMENSIONS) throw cursor.bad(`tensor ${shownJson(name)} has ${dimensions} dimensions`);
  const shape = Array.from({ length: dimensions }, () => cursor.count('numbers in a row', 2 ** 40)).reverse();
  const number = cursor.u32();
  const type = TYPE_NAMES.get(number);
  if (type === undefined) {
    const known = [...TYPE_NAMES.values()].join(', ');
    throw cursor.bad(`tensor ${shownJson(name)} has ggml's type ${number}; ${known} can be read`);
  }
  const begin = cursor.count('bytes before a tensor', 2 ** 50);
  const bytes = ggufBytes({ type, shape });
  if (!Number.isSafeInteger(bytes)) {
    throw cursor.bad(`tensor ${shownJson(name)} has the shape ${shownJson(shape)}, which no ${type} has`);
  }
  return { name, dtype: type, shape, begin, end: begin + bytes };
}

/**
 * @param bytes the start of the file
 * @throws MoreNeeded, or what `bad` makes of a header that is no GGUF of version 2 or 3
 */
export function parseGguf(bytes: Buffer, fileBytes: number, bad: Complaint): GgufHeader {
  const cursor = new Cursor(bytes, bytes.length >= Math.min(fileBytes, MAX_GGUF_HEADER_BYTES), bad);
  if (bytes.toString('latin1', 0, 4) !== 'GGUF') throw bad('it does not begin with GGUF');
  cursor.take(4);
  const version = cursor.u32();
  if (version !== 2 && version !== 3) throw bad(`it has version ${version}; 2 and 3 can be read`);
  const tensorCount = cursor.count('tensors', MAX_TENSORS);
  const keyCount = cursor.count('keys', MAX_KEYS);
  const keys = new Map<string, GgufScalar>();
  const arrays = new Map<string, readonly string[] | null>();
  for (let i = 0; i < keyCount; i++) {
    const name = cursor.text(MAX_NAME_BYTES);
    const value = cursor.value();
    if (typeof value === 'object') arrays.set(name, value);
    else keys.set(name, value);
  }
  const tensors = Array.from({ length: tensorCount }, () => tensorOf(cursor));
  const alignment = keys.get('general.alignment') ?? 32;
  return { keys, arrays, tensors: placed(tensors, cursor.at, alignment, fileBytes, bad) };
}

/** The tensors with places from the start of the file, each inside it. */
function placed(
  tensors: readonly TensorPlace[],
  headerBytes: number,
  alignment: GgufScalar,
  fileBytes: number,
  bad: Complaint,
): TensorPlace[] {
  const whole = typeof alignment === 'number' && Number.isInteger(alignment);
  if (!whole || alignment < 1 || alignment > 1 << 16) {
    throw bad(`its alignment is ${shownJson(alignment)}`);
  }
  const start = Math.ceil(headerBytes / alignment) * alignment;
  return tensors.map((tensor) => {
    const end = start + tensor.end;
    if (end > fileBytes)
      throw bad(`it is cut off: tensor ${shownJson(tensor.name)} ends at byte ${end} of ${fileBytes}`);
    return { ...tensor, begin: start + tensor.begin, end };
  });
}
