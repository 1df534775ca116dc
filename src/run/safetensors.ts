/** Small safetensors files: a length, a JSON header padded to 8 bytes, and the tensors' data without gaps. */
import { badInput } from '../base/errors';
import { headerPlace, parseHeader } from '../models/safetensors';

const ARRAYS = { F32: Float32Array, F64: Float64Array, I32: Int32Array, U8: Uint8Array } as const;
type DtypeName = keyof typeof ARRAYS;
export type TensorData = InstanceType<(typeof ARRAYS)[DtypeName]>;

export interface Tensor {
  shape: readonly number[];
  data: TensorData;
}

const isOwnType = (name: string): name is DtypeName => Object.hasOwn(ARRAYS, name);

const dtypeOf = (data: TensorData) =>
  (Object.keys(ARRAYS) as DtypeName[]).find((name) => data instanceof ARRAYS[name])!;

/** What precedes the data of these tensors. */
export function safetensorsHeader(
  tensors: Iterable<{ name: string; dtype: string; shape: readonly number[]; byteLength: number }>,
): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let offset = 0;
  for (const { name, dtype, shape, byteLength } of tensors) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + byteLength] };
    offset += byteLength;
  }
  const json = JSON.stringify(header);
  const padded = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8, ' '), 'utf8');
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  return Buffer.concat([length, padded]);
}

export function encodeSafetensors(tensors: ReadonlyMap<string, Tensor>): Buffer {
  const entries = [...tensors].map(([name, { shape, data }]) => ({
    name,
    dtype: dtypeOf(data),
    shape,
    byteLength: data.byteLength,
  }));
  const bodies = [...tensors.values()].map(({ data }) =>
    Buffer.from(data.buffer, data.byteOffset, data.byteLength),
  );
  return Buffer.concat([safetensorsHeader(entries), ...bodies]);
}

/** The tensors of `file`, as copies. @throws BAD_INPUT naming `path` */
export function decodeSafetensors(file: Buffer, path: string): Map<string, Tensor> {
  const bad = (what: string, cause?: unknown) =>
    badInput(`${path} is damaged or not a safetensors file: ${what}.`, cause);
  const { from, to } = headerPlace(file.subarray(0, 8), file.length, bad);
  const tensors = new Map<string, Tensor>();
  for (const { name, dtype, shape, begin, end } of parseHeader(file.subarray(from, to), file.length, bad)) {
    if (!isOwnType(dtype)) throw bad(`tensor ${name} has type ${dtype}, which runs do not write`);
    const bytes = Uint8Array.prototype.slice.call(file, begin, end);
    tensors.set(name, { shape, data: new ARRAYS[dtype](bytes.buffer, bytes.byteOffset) });
  }
  return tensors;
}
