/**
 * GGUF, ggml's container, version 3: typed keys, places of tensors, then the tensors, each from a multiple of 32 bytes on.
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
import type { TensorPlace } from '../engine/types';

/** How values are stored; those of `[]` are arrays. */
export type GgufType = 'u32' | 'i32' | 'f32' | 'bool' | 'string' | 'i32[]' | 'string[]';
export type GgufValue = number | boolean | string | readonly number[] | readonly string[];
export type GgufKey = readonly [name: string, type: GgufType, value: GgufValue];

export const GGUF_TENSOR_TYPES = { F32: 0, F16: 1, Q8_0: 8, BF16: 30 } as const;
export type GgufTensorType = keyof typeof GGUF_TENSOR_TYPES;

/** Numbers per block, and bytes. */
const BLOCKS: Readonly<Record<GgufTensorType, readonly [numbers: number, bytes: number]>> = {
  F32: [1, 4],
  F16: [1, 2],
  BF16: [1, 2],
  Q8_0: [32, 34],
};

const MAGIC = 'GGUF';
const VERSION = 3;
const ALIGNMENT = 32;
/** By the number of its type in the file; `null`: not one that is read here. */
const TYPES = { u8: 0, i8: 1, u16: 2, i16: 3, u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9 };

export interface GgufTensor {
  name: string;
  type: GgufTensorType;
  /** As the model has it, rows first; the file has the reverse. */
  shape: readonly number[];
  /** See `TensorPlace`. */
  heads?: number;
}

const aligned = (offset: number): number => Math.ceil(offset / ALIGNMENT) * ALIGNMENT;

/** NaN for rows that are not of whole blocks. */
export function ggufBytes({ type, shape }: Pick<GgufTensor, 'type' | 'shape'>): number {
  const [numbers, bytes] = BLOCKS[type];
  if ((shape.at(-1) ?? 1) % numbers !== 0) return NaN;
  return (shape.reduce((product, size) => product * size, 1) / numbers) * bytes;
}

class Writer {
  private readonly parts: Buffer[] = [];
  private size = 0;

  private put(bytes: number, write: (buffer: Buffer) => unknown): void {
    const buffer = Buffer.alloc(bytes);
    write(buffer);
    this.raw(buffer);
  }

  raw(buffer: Buffer): void {
    this.parts.push(buffer);
    this.size += buffer.length;
  }

  u32(value: number): void {
    this.put(4, (buffer) => buffer.writeUInt32LE(value));
  }

  u64(value: number): void {
    this.put(8, (buffer) => buffer.writeBigUInt64LE(BigInt(value)));
  }

  text(value: string): void {
    const bytes = Buffer.from(value, 'utf8');
    this.u64(bytes.length);
    this.raw(bytes);
  }

  value(type: string, value: unknown): void {
    if (type === 'string') this.text(value as string);
    else if (type === 'bool') this.raw(Buffer.from([value === true ? 1 : 0]));
    else if (type === 'f32') this.put(4, (buffer) => buffer.writeFloatLE(value as number));
    else if (type === 'i32') this.put(4, (buffer) => buffer.writeInt32LE(value as number));
    else this.u32(value as number);
  }

  key([name, type, value]: GgufKey): void {
    this.text(name);
    const of = type.replace('[]', '') as keyof typeof TYPES;
    if (of === type) {
      this.u32(TYPES[of]);
      return this.value(of, value);
    }
    const list = value as readonly unknown[];
    this.u32(TYPES.array);
    this.u32(TYPES[of]);
    this.u64(list.length);
    for (const item of list) this.value(of, item);
  }

  done(): Buffer {
    return Buffer.concat(this.parts, aligned(this.size));
  }
}

/** What precedes the tensors, where they go, and how long the file is. */
export function ggufLayout(
  keys: readonly GgufKey[],
  tensors: readonly GgufTensor[],
): { header: Buffer; places: TensorPlace[]; bytes: number } {
  const writer = new Writer();
  writer.raw(Buffer.from(MAGIC));
  writer.u32(VERSION);
  writer.u64(tensors.length);
  writer.u64(keys.length);
  for (const key of keys) writer.key(key);
  let offset = 0;
  const offsets = tensors.map((tensor) => {
    const own = offset;
    offset = aligned(offset + ggufBytes(tensor));
    return own;
  });
  tensors.forEach(({ name, type, shape }, i) => {
    writer.text(name);
    writer.u32(shape.length);
    for (const size of [...shape].reverse()) writer.u64(size);
    writer.u32(GGUF_TENSOR_TYPES[type]);
    writer.u64(offsets[i]!);
  });
  const header = writer.done();
  const places = tensors.map(({ name, type, shape, heads }, i): TensorPlace => {
    const begin = header.length + offsets[i]!;
    const end = begin + ggufBytes({ type, shape });
    return { name, dtype: type, shape: [...shape], begin, end, ...(heads !== undefined && { heads }) };
  });
  return { header, places, bytes: header.length + offset };
}
