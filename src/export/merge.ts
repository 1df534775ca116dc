/** A model folder with an adapter merged into the weights, in Hugging Face's layout. */
import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ExportingEngine, MergedMatrix, TensorPlace } from '../engine/types';
import { openWeights } from '../models';
import { safetensorsHeader } from '../run';
import type { ExportSource } from './source';

/** Types that weights are exported in, as safetensors names them, with their bytes. */
export const STORED_TYPES = {
  float32: { name: 'F32', bytes: 4 },
  bfloat16: { name: 'BF16', bytes: 2 },
  float16: { name: 'F16', bytes: 2 },
} as const;
export type StoredType = keyof typeof STORED_TYPES;

export const MERGED_FILE = 'model.safetensors';

/** A new file with `header` and room for all that follows. */
export async function makeRoom(path: string, header: Buffer, bytes: number): Promise<void> {
  await writeFile(path, header, { flag: 'wx' });
  await truncate(path, bytes);
}

/** The places of all tensors in a safetensors file, by name. */
export function safetensorsLayout(
  tensors: readonly { name: string; shape: number[] }[],
  type: StoredType,
): { header: Buffer; places: TensorPlace[]; bytes: number } {
  const { name: dtype, bytes: each } = STORED_TYPES[type];
  const sized = tensors
    .map(({ name, shape }) => ({
      ...{ name, shape, dtype },
      byteLength: each * shape.reduce((product, size) => product * size, 1),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const header = safetensorsHeader(sized);
  let end = header.length;
  const places = sized.map(({ byteLength, ...tensor }) => {
    const begin = end;
    end += byteLength;
    return { ...tensor, begin, end };
  });
  return { header, places, bytes: end };
}

/** Writes the weights of `source` into `directory`; resolves to what rounding did to what was trained. */
export async function writeMergedWeights(
  engine: ExportingEngine,
  { weights }: ExportSource,
  directory: string,
  type: StoredType,
  signal?: AbortSignal,
): Promise<MergedMatrix[]> {
  const path = join(directory, MERGED_FILE);
  const { places } = await planned();
  return engine.exportWeights(weights, { path, places }, { signal });

  async function planned() {
    await using files = await openWeights(weights);
    const plan = safetensorsLayout(files.weights.tensors, type);
    await makeRoom(path, plan.header, plan.bytes);
    return plan;
  }
}
