/** Writes fp32 tensors as one safetensors file: a length, a JSON header padded to 8 bytes, the data end to end. */
import { writeFile } from 'node:fs/promises';

export interface FloatTensor {
  shape: readonly number[];
  data: Float32Array;
}

export async function writeSafetensors(
  path: string,
  tensors: ReadonlyMap<string, FloatTensor>,
): Promise<void> {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let offset = 0;
  for (const [name, { shape, data }] of tensors) {
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, offset + data.byteLength] };
    offset += data.byteLength;
  }
  const json = JSON.stringify(header);
  const padded = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8, ' '), 'utf8');
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  const bodies = [...tensors.values()].map(({ data }) =>
    Buffer.from(data.buffer, data.byteOffset, data.byteLength),
  );
  await writeFile(path, Buffer.concat([length, padded, ...bodies]));
}
