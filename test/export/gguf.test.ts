/** GGUF files of the fixture models, compared with what llama.cpp's own converter makes of them. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { createExportingEngine } from '../../src/engine/engine';
import type { ExportingEngine } from '../../src/engine/types';
import { writeGgufModel } from '../../src/export/gguf-file';
import type { GgufFileType } from '../../src/export/gguf-keys';
import { parseGguf } from '../../src/models/gguf-reader';
import { RunDirectory } from '../../src/run';
import { modelDirectory } from '../helpers/fixtures';

type Value = number | string | boolean;
interface Converted {
  keys: Record<string, [types: string[], value: Value]>;
  tensors: Record<string, [type: string, shape: number[], sha256: string]>;
}
const { models } = JSON.parse(
  readFileSync(join(__dirname, '..', 'fixtures', 'export', 'gguf.json'), 'utf8'),
) as { models: Record<string, Record<GgufFileType, Converted>> };

/** Models that llama.cpp does not run as they are, whatever its converter writes. */
const REFUSED = new Map([
  ['qwen2-untied', 'heads x head_dim is hidden_size'],
  ['yarn-untied-sharded', 'truncate: false'],
]);
/**
 * The converter writes `attention_factor` under a name that llama.cpp does not read for these architectures; what it
 * reads it multiplies into the usual factor (docs/measurements/2026-11-28-gguf.md has both files in llama.cpp).
 */
const SCALING = 'qwen2.rope.scaling';
const OTHERWISE = new Map([
  ['yarn-named-tied', { theirs: `${SCALING}.yarn_attn_factor`, ours: `${SCALING}.attn_factor` }],
]);
const CASES = Object.entries(models)
  .filter(([name]) => !REFUSED.has(name))
  .flatMap(([name, types]) =>
    Object.entries(types).map(([type, converted]) => [name, type as GgufFileType, converted] as const),
  );

let folder: string;
let engine: ExportingEngine;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'acoer-gguf-'));
  engine = await createExportingEngine({ device: 'cpu', threads: 1 });
});
afterAll(async () => {
  await engine.dispose();
  rmSync(folder, { recursive: true });
});

async function written(name: string, type: GgufFileType): Promise<string> {
  const path = join(folder, `${name}-${type}.gguf`);
  const model = modelDirectory(name);
  const weights = { model, weights: null, adapter: null };
  const source = {
    run: new RunDirectory(folder),
    modelName: model,
    model,
    trained: model,
    adapter: null,
    step: 0,
    quantization: null,
    weights,
  };
  await writeGgufModel(engine, source, path, { type, name, about: [] });
  return path;
}

test.each([...REFUSED])('%s is refused', async (name, why) => {
  await expect(written(name, 'f32')).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringContaining(why),
  });
});

test.each(CASES)("%s as %s: llama.cpp's keys and bytes", async (name, type, converted) => {
  const path = await written(name, type);
  const file = readFileSync(path);
  const { keys, tensors } = parseGguf(file, file.length, (what) => new Error(what) as never);
  const otherwise = OTHERWISE.get(name);
  keys.delete('general.name');
  const wanted = Object.fromEntries(Object.entries(converted.keys).map(([key, [, value]]) => [key, value]));
  const architecture = String(wanted['general.architecture']);
  const [length, factor, original] = ['context_length', 'rope.scaling.factor', 'rope.scaling.original_context_length'].map((key) => `${architecture}.${key}`) as [string, string, string]; // prettier-ignore
  // A model with YaRN has the positions that its factor gives, also where config.json names fewer (decision 156).
  if (wanted[factor] !== undefined)
    wanted[length] = Math.max(
      wanted[length] as number,
      (wanted[factor] as number) * (wanted[original] as number),
    );
  if (otherwise !== undefined) {
    const { theirs, ours } = otherwise;
    const usual = 0.1 * Math.log(wanted[`${SCALING}.factor`] as number) + 1;
    expect(keys.get(ours)).toBeCloseTo((wanted[theirs] as number) / usual, 6);
    keys.delete(ours);
    delete wanted[theirs];
  }
  expect(Object.fromEntries(keys)).toEqual(wanted);
  const tensorsWritten = tensors.map(({ name: tensor, dtype, shape, begin, end }) => {
    const sha256 = createHash('sha256').update(file.subarray(begin, end)).digest('hex');
    return [tensor, [dtype, shape, sha256]];
  });
  expect(Object.fromEntries(tensorsWritten)).toEqual(converted.tensors);
});
