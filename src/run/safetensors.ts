/** Small safetensors files: a length, a JSON header padded to 8 bytes, the data of the tensors end to end. */
import { AcoerError } from '../errors';

const ARRAYS = { F32: Float32Array, F64: Float64Array, I32: Int32Array, U8: Uint8Array } as const;
type DtypeName = keyof typeof ARRAYS;
export type TensorData = InstanceType<(typeof ARRAYS)[DtypeName]>;

export interface Tensor {
  shape: readonly number[];
  data: TensorData;
}

interface Entry {
  dtype: DtypeName;
  shape: number[];
  data_offsets: [number, number];
}

const dtypeOf = (data: TensorData) =>
  (Object.keys(ARRAYS) as DtypeName[]).find((name) => data instanceof ARRAYS[name])!;

export function encodeSafetensors(tensors: ReadonlyMap<string, Tensor>): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let offset = 0;
  for (const [name, { shape, data }] of tensors) {
    header[name] = { dtype: dtypeOf(data), shape, data_offsets: [offset, offset + data.byteLength] };
    offset += data.byteLength;
  }
  const json = JSON.stringify(header);
  const padded = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8, ' '), 'utf8');
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  const bodies = [...tensors.values()].map(({ data }) =>
    Buffer.from(data.buffer, data.byteOffset, data.byteLength),
  );
  return Buffer.concat([length, padded, ...bodies]);
}

function headerOf(file: Buffer, path: string): { entries: Map<string, Entry>; start: number } {
  const length = file.length < 8 ? 0n : file.readBigUInt64LE();
  if (length === 0n || length > BigInt(file.length - 8)) throw badFile(path, 'its header is cut off');
  const start = 8 + Number(length);
  let header: unknown;
  try {
    header = JSON.parse(file.toString('utf8', 8, start));
  } catch (cause) {
    throw badFile(path, 'its header is no JSON', cause);
  }
  if (typeof header !== 'object' || header === null) throw badFile(path, 'its header is no JSON object');
  const entries = Object.entries(header).filter(([name]) => name !== '__metadata__');
  return { entries: new Map(entries as [string, Entry][]), start };
}

const badFile = (path: string, what: string, cause?: unknown) =>
  new AcoerError('BAD_INPUT', `${path} is no safetensors file: ${what}.`, { cause });

/** A list of whole numbers from 0, or null for anything else. */
const sizesOf = (value: unknown): number[] | null =>
  Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0)
    ? (value as number[])
    : null;

/** The tensors of `file`, copied out of it. @throws BAD_INPUT naming `path` */
export function decodeSafetensors(file: Buffer, path: string): Map<string, Tensor> {
  const { entries, start } = headerOf(file, path);
  const tensors = new Map<string, Tensor>();
  for (const [name, entry] of entries) {
    const [from, to] = sizesOf(entry?.data_offsets) ?? [NaN, NaN];
    const { dtype } = entry ?? {};
    const array = typeof dtype === 'string' && Object.hasOwn(ARRAYS, dtype) ? ARRAYS[dtype] : undefined;
    const count = sizesOf(entry?.shape)?.reduce((all, n) => all * n, 1) ?? NaN;
    if (
      array === undefined ||
      !(start + to <= file.length) ||
      to - from !== count * array.BYTES_PER_ELEMENT
    ) {
      throw badFile(path, `tensor ${name.slice(0, 100)} has a bad type, shape or place`);
    }
    const bytes = Uint8Array.prototype.slice.call(file, start + from, start + to);
    tensors.set(name, { shape: entry.shape, data: new array(bytes.buffer, bytes.byteOffset, count) });
  }
  return tensors;
}
