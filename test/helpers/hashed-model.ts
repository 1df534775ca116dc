/**
 * A model with real widths whose weights are a hash of their index: 800 MB that need not be stored. The
 * generator is the one in scripts/fixtures/wide.py.
 */
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';

export interface HashedModel {
  config: Record<string, unknown>;
  /** Names and shapes in Hugging Face's order; a tensor's position is its number in the hash. */
  tensors: [string, number[]][];
}

/** The upper half of a float32: exact for every value the tables hold. */
const bfloat16Bits = (value: number): number => new Uint32Array(Float32Array.of(value).buffer)[0]! >>> 16;

function valueTable(name: string): Uint16Array {
  const value = (byte: number): number => {
    const quarter = Math.floor(byte / 4);
    if (name === 'model.norm.weight') return 1.5 + quarter / 128;
    return name.endsWith('norm.weight') ? 0.75 + quarter / 128 : (2 * byte - 255) / 8192;
  };
  return Uint16Array.from({ length: 256 }, (_, byte) => bfloat16Bits(value(byte)));
}

// A local copy: in Jest's sandbox every use of a global is a look-up that costs more than the multiplication.
const { imul } = Math;

/** MurmurHash3's finaliser of `start + i` for each i, as indices into `table`. */
function fill(out: Uint16Array, start: number, table: Uint16Array): void {
  for (let i = 0; i < out.length; i++) {
    let h = (start + i) | 0;
    h = imul(h ^ (h >>> 16), 0x85ebca6b);
    h = imul(h ^ (h >>> 13), 0xc2b2ae35);
    h ^= h >>> 16;
    out[i] = table[h >>> 24]!;
  }
}

const CHUNK = 1 << 24;

/** Writes config.json and a bfloat16 model.safetensors. */
export function writeHashedModel(directory: string, { config, tensors }: HashedModel): void {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'config.json'), JSON.stringify(config));
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  const counts = tensors.map(([, shape]) => shape.reduce((a, b) => a * b, 1));
  let offset = 0;
  tensors.forEach(([name, shape], i) => {
    header[name] = { dtype: 'BF16', shape, data_offsets: [offset, (offset += 2 * counts[i]!)] };
  });
  const json = JSON.stringify(header);
  const text = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const file = openSync(join(directory, 'model.safetensors'), 'w');
  writeSync(file, Buffer.concat([length, text]));
  tensors.forEach(([name], number) => {
    const table = valueTable(name);
    const base = imul(number + 1, 0x9e3779b9);
    for (let start = 0; start < counts[number]!; start += CHUNK) {
      const out = new Uint16Array(Math.min(CHUNK, counts[number]! - start));
      fill(out, base + start, table);
      writeSync(file, Buffer.from(out.buffer));
    }
  });
  closeSync(file);
}
