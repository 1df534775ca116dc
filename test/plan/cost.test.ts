/**
 * The cost model against independently computed figures of Qwen3-1.7B (model card, config and arithmetic).
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { plannedModel } from '../../src/plan';
import {
  attentionFlopsPerPair,
  baseBytes,
  decodeStepWork,
  decodeWeightBytes,
  embeddingParameters,
  fitsNf4,
  floorSeconds,
  forwardFlopsPerToken,
  kvBytesPerToken,
  layerMatrixBytes,
  layerMatrixParameters,
  loraParameters,
  parameterCount,
  prefillWork,
  rolloutFloorSeconds,
  trainWork,
  type TrainSequence,
  vectorParameters,
} from '../../src/plan/cost';
import { SHAPES } from '../../src/plan/shapes';

const shape = SHAPES['qwen3-1.7b'];
const BF16 = 2;

test('parameters of Qwen3-1.7B, part by part', () => {
  expect(layerMatrixParameters(shape)).toBe(28 * 50_331_648);
  expect(embeddingParameters(shape)).toBe(311_164_928);
  expect(vectorParameters(shape)).toBe(123_904);
  expect(parameterCount(shape)).toBe(1_720_574_976);
  expect(loraParameters(shape, 16)).toBe(17_432_576);
});

// Counted by transformers, from each model's config.json (scripts/fixtures/shape_parameters.py).
test('every known shape has the parameters of its model', () => {
  const path = resolve(__dirname, '../fixtures/plan/parameters.json');
  const { counts } = JSON.parse(readFileSync(path, 'utf8')) as { counts: Record<string, number> };
  const { tiny: _, ...known } = SHAPES;
  expect(Object.fromEntries(Object.values(known).map((one) => [one.name, parameterCount(one)]))).toEqual(
    counts,
  );
});

// `safetensors.total` of each model's page on the hub: counted from its weight files, not from its configuration.
test.each([
  ['Qwen/Qwen3-8B', 8_190_735_360],
  ['Qwen/Qwen2.5-0.5B-Instruct', 494_032_768],
  ['Qwen/Qwen2.5-3B-Instruct', 3_085_938_688],
  ['Qwen/Qwen2.5-7B-Instruct', 7_615_616_512],
  ['Qwen/Qwen2.5-14B-Instruct', 14_770_033_664],
  ['meta-llama/Llama-3.2-3B-Instruct', 3_212_749_824],
  ['HuggingFaceTB/SmolLM2-135M-Instruct', 134_515_008],
  ['HuggingFaceTB/SmolLM2-360M', 361_821_120],
  ['HuggingFaceTB/SmolLM2-1.7B-Instruct', 1_711_376_384],
])('%s is known without its files, with its published parameters', async (name, parameters) => {
  expect(parameterCount((await plannedModel(name)).shape)).toBe(parameters);
});

test.each([
  ['Qwen/Qwen2.5-7B', 131_072],
  ['Qwen/Qwen2.5-7B-Instruct', 32_768],
  ['Qwen/Qwen2.5-Math-7B-Instruct', 4096],
  ['Qwen/Qwen3-4B-Base', 40_960],
  ['Qwen/Qwen3-4B-Thinking-2507', 262_144],
  ['deepseek-ai/DeepSeek-R1-Distill-Llama-8B@main', 131_072],
  ['unsloth/Llama-3.2-1B-Instruct', 131_072],
])('%s has %i positions', async (name, positions) => {
  expect((await plannedModel(name)).maxPositions).toBe(positions);
});

describe('quantised linear layers', () => {
  // bitsandbytes by hand, for one layer of Qwen3-1.7B: q and o 2048 x 2048, k and v 1024 x 2048, gate, up and down
  // 6144 x 2048; blocks of 64 with a byte, groups of 256 blocks with four, an offset for each of the seven.
  const weights = 2 * 2048 * 2048 + 2 * 1024 * 2048 + 3 * 6144 * 2048;

  test('nf4: half a byte, and scales in two stages', () => {
    const expected = weights / 2 + weights / 64 + (4 * weights) / 64 / 256 + 7 * 4;
    expect(layerMatrixBytes(shape, BF16, 'nf4')).toBe(28 * expected);
    expect((8 * layerMatrixBytes(shape, BF16, 'nf4')) / layerMatrixParameters(shape)).toBeCloseTo(4.127, 3);
  });

  test('a last group of a part may be short', () => {
    // 3 x 64 inputs by 10 outputs: 30 blocks, one group.
    const small = { ...shape, numLayers: 1, hiddenSize: 192, intermediateSize: 10 };
    const down = { ...small, intermediateSize: 64 };
    const gateUp = 2 * (960 + 30 + 4 + 4);
    const others = layerMatrixBytes(down, BF16, 'nf4') - 3 * (6144 + 192 + 4 + 4);
    expect(fitsNf4(small)).toBe(false);
    expect(fitsNf4(down)).toBe(true);
    expect(layerMatrixBytes(small, BF16, 'nf4')).toBeCloseTo(others + gateUp + 960 + 30 + 4 + 4, 6);
  });

  test('int8: a byte, and four for each row', () => {
    const rows = 2 * 2048 + 2 * 1024 + 2 * 6144 + 2048;
    expect(layerMatrixBytes(shape, BF16, 'int8')).toBe(28 * (weights + 4 * rows));
  });

  test('everything else keeps its type', () => {
    const rest = BF16 * (parameterCount(shape) - layerMatrixParameters(shape));
    for (const quantization of ['nf4', 'int8'] as const) {
      const layers = layerMatrixBytes(shape, BF16, quantization);
      expect(baseBytes(shape, BF16, quantization)).toBe(layers + rest);
      expect(decodeWeightBytes(shape, BF16, quantization)).toBe(layers + rest);
    }
    expect(baseBytes(shape, BF16)).toBe(BF16 * parameterCount(shape));
  });
});

test('8-bit keys and values: a byte each and a scale for each head', () => {
  expect(kvBytesPerToken(shape, BF16, 'int8')).toBe(2 * 28 * 8 * (128 + 4));
  const step = (kvCacheDtype: 'auto' | 'int8') =>
    decodeStepWork(shape, [1000, 24], { bytesPerElement: BF16, kvCacheDtype }).bytes;
  expect(step('auto') - step('int8')).toBe(1024 * 2 * 28 * 8 * (256 - 132));
});

test('biases of q, k and v count, norms of heads count only where they are', () => {
  const { qkNorm: _, ...rest } = shape;
  expect(vectorParameters(shape) - vectorParameters({ ...rest, qkNorm: false })).toBe(28 * 2 * 128);
  expect(vectorParameters({ ...shape, qkvBias: true }) - vectorParameters(shape)).toBe(28 * 32 * 128);
});

test('the embedded model has the parameters its recipe states', () => {
  expect(parameterCount(SHAPES.tiny)).toBe(338_784);
});

test('an untied head counts as parameters, not as bytes of a decode step', () => {
  const untied = { ...shape, tieWordEmbeddings: false };
  expect(parameterCount(untied) - parameterCount(shape)).toBe(311_164_928);
  expect(decodeWeightBytes(untied, BF16)).toBe(decodeWeightBytes(shape, BF16));
});

test('bytes: weights 3.441 GB per decode step, KV 114,688 per token', () => {
  expect(decodeWeightBytes(shape, BF16) / 1e9).toBeCloseTo(3.441, 3);
  expect(kvBytesPerToken(shape, BF16)).toBe(114_688);
});

test('FLOPs: 3.44 G per token; attention over sequences of 5,000 tokens adds 0.57 G', () => {
  expect(forwardFlopsPerToken(shape) / 1e9).toBeCloseTo(3.441, 3);
  // 229,376 per pair; a sequence of 5,000 has 2,500 pairs per token on average.
  expect((attentionFlopsPerPair(shape) * 2500) / 1e9).toBeCloseTo(0.573, 3);
});

test('decode steps: 16 x 2,500 reads 8.03 GB, 96 x 4,096 reads 48.5 GB', () => {
  const bytes = (rows: number, context: number): number =>
    decodeStepWork(shape, new Array<number>(rows).fill(context), { bytesPerElement: BF16 }).bytes;
  expect(bytes(16, 2500) / 1e9).toBeCloseTo(8.03, 2);
  expect(bytes(96, 4096) / 1e9).toBeCloseTo(48.5, 1);
});

test('fp32 adapters of rank 16 add 70 MB to a step', () => {
  const plain = decodeStepWork(shape, [100], { bytesPerElement: BF16 });
  const adapted = decodeStepWork(shape, [100], { bytesPerElement: BF16, loraRank: 16 });
  expect(adapted.bytes - plain.bytes).toBe(17_432_576 * 4);
  expect(adapted.flops - plain.flops).toBe(2 * 17_432_576);
});

test('prefill of 512 tokens is 1.5 TFLOP', () => {
  expect(prefillWork(shape, 512, BF16).flops / 1e12).toBeCloseTo(1.47, 2);
});

describe('training', () => {
  const cut = { ...shape, numLayers: 4 };
  const one = [{ tokens: 512, completionTokens: 512 }];
  const flops = (recompute: boolean, loraRank: number | null): number =>
    trainWork(cut, one, { bytesPerElement: BF16, loraRank, recompute }).flops;

  test('4 layers over 512 tokens are 1.05 TFLOP, 1.26 with recomputation', () => {
    expect(flops(false, 16) / 1e12).toBeCloseTo(1.05, 1);
    expect(flops(true, 16) / 1e12).toBeCloseTo(1.26, 1);
  });

  test('a prompt that another sequence computes costs its own pass less', () => {
    const options = { bytesPerElement: BF16, loraRank: 16, recompute: true };
    const of = (...sequences: TrainSequence[]): number => trainWork(cut, sequences, options).flops;
    const whole = { tokens: 140, completionTokens: 40 };
    const prompt = { tokens: 99, completionTokens: 0 };
    expect(of(whole, { ...whole, sharedTokens: 99 })).toBe(2 * of(whole) - of(prompt));
  });

  test('full training adds one product per weight for its gradient and drops the adapters', () => {
    const weights = layerMatrixParameters(cut) + embeddingParameters(cut);
    expect(flops(false, null) - flops(false, 16)).toBe(2 * 512 * weights - 6 * 512 * loraParameters(cut, 16));
  });
});

describe('floors', () => {
  const work = { flops: 2e12, bytes: 1e9 };

  test('the slower of bytes and FLOPs decides', () => {
    expect(floorSeconds(work, { readBytesPerSecond: 1e9, matmulFlopsPerSecond: 1e13 })).toBe(1);
    expect(floorSeconds(work, { readBytesPerSecond: 1e10, matmulFlopsPerSecond: 1e12 })).toBe(2);
  });

  test('one sequence at 35 GB/s: 99 ms per token', () => {
    const ceilings = { readBytesPerSecond: 34.8e9, matmulFlopsPerSecond: 418e9 };
    const plan = { prompts: 1, promptTokens: 1, samplesPerPrompt: 1, newTokens: 2, slots: 1 };
    const two = rolloutFloorSeconds(shape, plan, ceilings, { bytesPerElement: BF16 });
    expect(two / 2).toBeCloseTo(0.099, 3);
  });

  test('waves: half the slots decode the same sequences in twice the steps', () => {
    const ceilings = { readBytesPerSecond: 1e9, matmulFlopsPerSecond: 1e30 };
    const plan = { prompts: 1, promptTokens: 8, samplesPerPrompt: 4, newTokens: 9, slots: 4 };
    const seconds = (slots: number): number =>
      rolloutFloorSeconds(shape, { ...plan, slots }, ceilings, { bytesPerElement: BF16 });
    const weights = decodeWeightBytes(shape, BF16) / 1e9;
    expect(seconds(2) - seconds(4)).toBeCloseTo(8 * weights, 6);
  });

  test('keys and values in int8 are read as such', () => {
    const ceilings = { readBytesPerSecond: 1e9, matmulFlopsPerSecond: 1e30 };
    const plan = { prompts: 1, promptTokens: 1000, samplesPerPrompt: 4, newTokens: 2, slots: 4 };
    const seconds = (kvCacheDtype: 'auto' | 'int8'): number =>
      rolloutFloorSeconds(shape, plan, ceilings, { bytesPerElement: BF16, kvCacheDtype });
    const saved = 4 * 1001 * (kvBytesPerToken(shape, BF16) - kvBytesPerToken(shape, BF16, 'int8'));
    expect(seconds('auto') - seconds('int8')).toBeCloseTo(saved / 1e9, 9);
  });
});
