/**
 * Random weights in the same files as Qwen3-1.7B on the hub: two shards, with the tied head in the second.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SHAPES, writeRandomWeights } from '../../src/bench';
import { parameterCount } from '../../src/plan/cost';
import { createEngine } from '../../src/engine/engine';

interface Tensor {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

const [FIRST, SECOND] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'] as const;
const FILES = [FIRST, SECOND];
const shape = { ...SHAPES.tiny, shards: 2, storesTiedHead: true };
let directory: string;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'acoer-shards-'));
  await writeRandomWeights(directory, shape);
});

afterAll(() => rmSync(directory, { recursive: true }));

function shard(name: string): { tensors: Record<string, Tensor>; data: Buffer } {
  const file = readFileSync(join(directory, name));
  const start = 8 + Number(file.readBigUInt64LE(0));
  const { __metadata__, ...tensors } = JSON.parse(file.toString('utf8', 8, start)) as Record<string, Tensor>;
  expect(__metadata__).toEqual({ format: 'pt' });
  return { tensors, data: file.subarray(start) };
}

test('the index names the shard of every tensor and the bytes of all', () => {
  const index = JSON.parse(readFileSync(join(directory, 'model.safetensors.index.json'), 'utf8')) as {
    metadata: { total_size: number };
    weight_map: Record<string, string>;
  };
  expect(readdirSync(directory).sort()).toEqual(['config.json', ...FILES, 'model.safetensors.index.json']);
  const held = FILES.flatMap((name) => Object.keys(shard(name).tensors).map((tensor) => [tensor, name]));
  expect(index.weight_map).toEqual(Object.fromEntries(held));
  expect(index.metadata.total_size).toBe(FILES.reduce((sum, name) => sum + shard(name).data.length, 0));
});

test('the second shard contains the head, byte for byte the embedding', () => {
  const [first, second] = [shard(FIRST), shard(SECOND)];
  expect(Object.keys(second.tensors)).toEqual(['lm_head.weight']);
  const { data_offsets, ...embedding } = first.tensors['model.embed_tokens.weight']!;
  expect(second.tensors['lm_head.weight']).toMatchObject(embedding);
  expect(second.data.equals(first.data.subarray(...data_offsets))).toBe(true);
});

test('the engine loads both shards and counts the head once', async () => {
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  const { info } = await engine.loadModel(directory);
  expect(info.parameterCount).toBe(parameterCount(shape));
});

test("Qwen3's small models take as many bytes as on the hub", () => {
  const bytes = ({ vocabSize, hiddenSize, ...rest }: (typeof SHAPES)['qwen3-1.7b' | 'qwen3-0.6b']) =>
    2 *
    (parameterCount({ vocabSize, hiddenSize, ...rest }) + (rest.storesTiedHead ? vocabSize * hiddenSize : 0));
  // 751,632,384 weights in the file of Qwen3-0.6B, 2,031,739,904 in the two of Qwen3-1.7B, in bf16.
  expect(bytes(SHAPES['qwen3-0.6b'])).toBe(2 * 751_632_384);
  expect(bytes(SHAPES['qwen3-1.7b'])).toBe(2 * 2_031_739_904);
});
