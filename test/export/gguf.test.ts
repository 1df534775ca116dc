/** GGUF files of the fixture models, compared with what llama.cpp's own converter makes of them. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { createEngine } from '../../src/engine/engine';
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
/** The converter writes `attention_factor` where llama.cpp expects its share of the usual factor. */
const OTHERWISE = new Map([['yarn-named-tied', 'qwen2.rope.scaling.yarn_attn_factor']]);
const CASES = Object.entries(models)
  .filter(([name]) => !REFUSED.has(name))
  .flatMap(([name, types]) =>
    Object.entries(types).map(([type, converted]) => [name, type as GgufFileType, converted] as const),
  );

let folder: string;
let engine: ExportingEngine;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'acoer-gguf-'));
  engine = await createEngine({ device: 'cpu', threads: 1 });
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
    weights,
  };
  await writeGgufModel(engine, source, path, { type, name, tokenizer: [] });
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
  const otherwise = OTHERWISE.get(name) ?? '';
  for (const key of ['general.name', otherwise]) keys.delete(key);
  const wanted = Object.entries(converted.keys).map(([key, [, value]]) => [key, value]);
  expect(Object.fromEntries(keys)).toEqual(Object.fromEntries(wanted.filter(([key]) => key !== otherwise)));
  const tensorsWritten = tensors.map(({ name: tensor, dtype, shape, begin, end }) => {
    const sha256 = createHash('sha256').update(file.subarray(begin, end)).digest('hex');
    return [tensor, [dtype, shape, sha256]];
  });
  expect(Object.fromEntries(tensorsWritten)).toEqual(converted.tensors);
});
