import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { BenchResult } from '../../src/bench';
import { SHAPES, writeRandomWeights } from '../../src/bench';
import type { NamedShape } from '../../src/plan/shapes';
import { parameterCount } from '../../src/plan/cost';
import { createEngine } from '../../src/engine/engine';
import { acoer } from '../helpers/cli';

const scratch = mkdtempSync(join(tmpdir(), 'acoer-bench-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const SIZES = '--prompts 2 --prompt-tokens 8 --group 2 --new-tokens 8 --repeats 2 --warmup 0'.split(' ');

async function bench(what: string, ...flags: string[]): Promise<{ text: string; result: BenchResult }> {
  const words = ['bench', what, '--shape', 'tiny', '--device', 'cpu', ...SIZES, '--json', ...flags];
  const { code, stdout } = await acoer(...words);
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  return { text: lines.slice(0, -1).join('\n'), result: JSON.parse(lines.at(-1)!) as BenchResult };
}

test.each([
  ['rollout', ['rollout'], ['prefill', 'decode']],
  ['train', ['train'], []],
  ['step', ['rollout', 'train', 'step'], ['prefill', 'decode', 'optimizer']],
])('bench %s: a table, and the figures as JSON on the last line', async (what, phases, parts) => {
  const { text, result } = await bench(what);
  expect(Object.keys(result.phases)).toEqual(phases);
  expect(Object.keys(result.parts)).toEqual(parts);
  for (const name of phases) expect(text).toMatch(new RegExp(`^${name} `, 'm'));
  for (const { seconds, tokensPerSecond, floorSeconds, ratioToFloor } of Object.values(result.phases)) {
    expect(seconds.min).toBeLessThanOrEqual(seconds.median);
    expect(seconds.median).toBeLessThanOrEqual(seconds.max);
    expect(tokensPerSecond.min).toBeLessThanOrEqual(tokensPerSecond.max);
    expect(ratioToFloor.median).toBeCloseTo(seconds.median / floorSeconds, 6);
    // Nothing is faster than its floor, but a CPU's clock may rise between measuring the ceiling and the
    // work.
    expect(ratioToFloor.min).toBeGreaterThan(0.7);
  }
  expect(result.logprobGap === null).toBe(what !== 'step');
  expect(result.model).toMatchObject({ parameters: 338_784, dtype: 'bfloat16' });
  expect(result.ceilings.readBytesPerSecond.min).toBeGreaterThan(1e8);
  expect(result.ceilings.matmulFlopsPerSecond.min).toBeGreaterThan(1e8);
});

test('step: trainer and sampler agree', async () => {
  const { result } = await bench('step', '--dtype', 'float32');
  expect(result.logprobGap!.mean).toBeLessThan(1e-5);
  expect(result.logprobGap!.max).toBeLessThan(1e-4);
});

test('what speculation proposed, and how much of it was drawn', async () => {
  const { text, result } = await bench('rollout', '--num-speculative-tokens', '4', '--new-tokens', '64');
  const { proposed, accepted } = result.speculation!;
  expect(accepted).toBeLessThanOrEqual(proposed);
  expect(text).toMatch(new RegExp(`^speculation: \\d+% of ${proposed} proposed tokens were drawn$`, 'm'));
  const plain = await bench('rollout');
  expect(plain.result.speculation).toBeNull();
  expect(plain.text).not.toContain('speculation');
});

describe('random weights', () => {
  const hash = (directory: string): string =>
    createHash('sha256')
      .update(readFileSync(join(directory, 'model.safetensors')))
      .digest('hex');

  test('the same seed gives the same bytes, another seed gives others', async () => {
    const directories = ['a', 'b', 'c'].map((name) => join(scratch, name));
    for (const [i, directory] of directories.entries()) {
      await writeRandomWeights(directory, SHAPES.tiny, i < 2 ? 1 : 2);
    }
    const [a, b, c] = directories.map(hash);
    expect(b).toBe(a);
    expect(c).not.toBe(a);
  });

  test.each<[string, Partial<NamedShape>]>([
    ['one file, tied', { shards: 1, tieWordEmbeddings: true }],
    ['three shards, untied', { shards: 3, tieWordEmbeddings: false }],
    ['of Qwen2', { modelType: 'qwen2', qkvBias: true, qkNorm: false }],
    ['of Llama', { modelType: 'llama', qkNorm: false, ropeScaling: SHAPES['llama-3.2-1b'].ropeScaling }],
  ])('load as a model with the requested shape: %s', async (name, options) => {
    const shape: NamedShape = { ...SHAPES.tiny, ...options };
    const directory = join(scratch, name);
    await writeRandomWeights(directory, shape);
    await using engine = await createEngine({ device: 'cpu' });
    const { info } = await engine.loadModel(directory);
    expect(info.parameterCount).toBe(parameterCount(shape));
    expect(info).toMatchObject({
      dtype: 'bfloat16',
      vocabSize: shape.vocabSize,
      numLayers: shape.numLayers,
      tieWordEmbeddings: shape.tieWordEmbeddings,
      qkvBias: shape.qkvBias,
      qkNorm: shape.qkNorm,
    });
  });

  test('are normal with standard deviation 0.02', () => {
    const file = readFileSync(join(scratch, 'a', 'model.safetensors'));
    const start = 8 + Number(file.readBigUInt64LE(0));
    const header = JSON.parse(file.toString('utf8', 8, start)) as Record<
      string,
      { data_offsets: [number, number] }
    >;
    const [begin, end] = header['model.layers.1.mlp.up_proj.weight']!.data_offsets;
    const bits = new Uint32Array((end - begin) / 2).map(
      (_, i) => file.readUInt16LE(start + begin + 2 * i) << 16,
    );
    const values = new Float32Array(bits.buffer);
    const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
    const std = Math.sqrt(values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / values.length);
    // 24,576 draws: the standard error of mean and deviation is about 1e-4.
    expect(Math.abs(mean)).toBeLessThan(6e-4);
    expect(Math.abs(std - 0.02)).toBeLessThan(6e-4);
    const within = values.filter((x) => Math.abs(x) < 0.02).length / values.length;
    expect(Math.abs(within - 0.683)).toBeLessThan(0.015);
  });
});
