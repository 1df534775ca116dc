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

/** Heads that do not add up to the hidden size: llama.cpp does not run what its converter writes. */
const CASES = Object.entries(models)
  .filter(([name]) => name !== 'qwen2-untied')
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

test.each(CASES)("%s as %s: llama.cpp's keys and bytes", async (name, type, converted) => {
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
  const file = readFileSync(path);
  const { keys, tensors } = parseGguf(file, file.length, (what) => new Error(what) as never);
  keys.delete('general.name');
  const wanted = Object.entries(converted.keys).map(([key, [, value]]) => [key, value]);
  expect(Object.fromEntries(keys)).toEqual(Object.fromEntries(wanted));
  const written = tensors.map(({ name: tensor, dtype, shape, begin, end }) => {
    const sha256 = createHash('sha256').update(file.subarray(begin, end)).digest('hex');
    return [tensor, [dtype, shape, sha256]];
  });
  expect(Object.fromEntries(written)).toEqual(converted.tensors);
});
