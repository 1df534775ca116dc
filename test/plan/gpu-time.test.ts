/** The time expected on a GPU against estimates computed apart (`scripts/fixtures/gpu_decode.py`); no card ran it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loraParameters, parameterCount } from '../../src/plan/cost';
import {
  gpuDecodeStepSeconds,
  gpuPassSeconds,
  gpuTrainingElements,
  GDDR_SHARES,
  HBM_SHARES,
} from '../../src/plan/gpu-time';
import { namedDevice } from '../../src/plan';
import { SHAPES } from '../../src/plan/shapes';

const shape = SHAPES['qwen3-1.7b'];
const options = { bytesPerElement: 2, loraRank: 16 };
const ESTIMATES = JSON.parse(
  readFileSync(join(__dirname, '../fixtures/plan/gpu-decode.json'), 'utf8'),
) as Record<'A6000' | 'H100', Record<'64' | '1024' | '4096', number>>;

const step = (card: 'A6000' | 'H100', rows: number, context: number): number => {
  const { ceilings, expected } = namedDevice(card, 'bfloat16');
  if (expected.by !== 'counts') throw new Error('a GPU is expected to reach counted times');
  const contexts = new Array<number>(rows).fill(context);
  return gpuDecodeStepSeconds(shape, contexts, options, ceilings!, expected.shares);
};

describe('decoding', () => {
  test.each(['A6000', 'H100'] as const)('%s: 16 sequences take as long as estimated', (card) => {
    for (const [context, seconds] of Object.entries(ESTIMATES[card])) {
      expect(step(card, 16, Number(context)) / seconds).toBeCloseTo(1, 10);
    }
  });

  test('an A6000 decodes 16 sequences at 1,024 tokens in at most 10.5 ms a step', () => {
    expect(step('A6000', 16, 1024)).toBeLessThan(10.5e-3);
    // Not below what reading weights and cache takes.
    expect(step('A6000', 16, 1024)).toBeGreaterThan(6.9e-3);
  });

  test('more sequences take longer, each one less', () => {
    expect(step('H100', 96, 1024)).toBeGreaterThan(step('H100', 16, 1024));
    expect(step('H100', 96, 1024) / 96).toBeLessThan(step('H100', 16, 1024) / 16);
  });

  describe('an adapter', () => {
    const { ceilings } = namedDevice('A6000', 'bfloat16');
    const adapter = (rows: number, loraRank: number): number => {
      const seconds = (rank: number | null) =>
        gpuDecodeStepSeconds(
          shape,
          new Array<number>(rows).fill(64),
          { ...options, loraRank: rank },
          ceilings!,
          GDDR_SHARES,
        );
      return (seconds(loraRank) - seconds(null)) / shape.numLayers;
    };
    const bytes = (loraRank: number): number => (2 * loraParameters(shape, loraRank)) / shape.numLayers;

    test('takes seven launches a layer and its bytes', () => {
      expect(bytes(16)).toBeCloseTo(1.245e6, -3);
      expect(adapter(16, 16)).toBeCloseTo(7 * 1.6e-6 + bytes(16) / 768e9 / 0.85, 12);
      expect(adapter(1, 16)).toBeCloseTo(adapter(16, 16), 12);
    });

    test("goes through the library's products where rows times rank are many", () => {
      expect(adapter(256, 16)).toBeCloseTo(8 * 3e-6, 12);
      expect(adapter(16, 256)).toBeCloseTo(8 * 3e-6, 12);
      // 33 rows are too many for gate and up alone.
      const gateUp = (2 * 16 * 2 * (2048 + 6144)) / 768e9 / 0.85 + 1.6e-6;
      expect(adapter(33, 16) - adapter(32, 16)).toBeCloseTo(2 * 3e-6 - gateUp, 12);
    });
  });
});

describe('decoding over a quantised base', () => {
  const { ceilings } = namedDevice('A6000', 'bfloat16');
  const large = SHAPES['qwen3-8b'];
  const seconds = (
    rows: number,
    quantization: 'nf4' | 'int8' | null,
    kvCacheDtype: 'auto' | 'int8' = 'auto',
  ) =>
    gpuDecodeStepSeconds(
      large,
      new Array<number>(rows).fill(64),
      { bytesPerElement: 2, loraRank: null, quantization, kvCacheDtype },
      ceilings!,
      GDDR_SHARES,
    );
  // 36 layers of q and o 4096 x 4096, k and v 1024 x 4096, gate, up and down 12,288 x 4096.
  const weights = 36 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 12_288 * 4096);
  const plain = (2 * weights) / 768e9 / 0.75;

  test('one sequence: the codes are read instead of the weights', () => {
    const codes = (weights + 36 * 4 * (4096 + 2 * 1024 + 2 * 12_288 + 2 * 4096)) / 768e9 / 0.75;
    expect(seconds(1, null) - seconds(1, 'int8')).toBeCloseTo(plain - codes, 9);
    expect(seconds(1, 'nf4')).toBeLessThan(seconds(1, 'int8'));
  });

  // The table of decision 0296, counted apart, in which all of the rate and of the bandwidth is reached: milliseconds of
  // all layers of this model with 4, 16 and 32 rows.
  test.each([
    ['A6000', 4.7, 10.1, 20.1],
    ['4090', 3.6, 4.7, 9.4],
    ['H100', undefined, 5.8, 11.6],
  ] as const)('%s: up to 32 sequences straight from the codes', (card, four, sixteen, thirtyTwo) => {
    const rates = namedDevice(card, 'bfloat16').ceilings!;
    const all = { products: 1, kernels: 1, matmul: 1, attention: 1, cores: 1 };
    const layers = (rows: number, quantization: 'nf4' | null) =>
      gpuDecodeStepSeconds(
        large,
        new Array<number>(rows).fill(64),
        { bytesPerElement: 2, loraRank: null, quantization },
        rates,
        all,
      );
    const read = (2 * weights) / rates.readBytesPerSecond;
    const milliseconds = { 4: four, 16: sixteen, 32: thirtyTwo };
    for (const [rows, expected] of Object.entries(milliseconds)) {
      if (expected === undefined) continue;
      const product = layers(Number(rows), 'nf4') - layers(Number(rows), null) + read;
      expect(1e3 * product).toBeCloseTo(expected, 1);
    }
  });

  test('more: dequantised first, which takes longer than the plain product', () => {
    const codes = 36 * (weights / 36 / 2 + weights / 36 / 64 + weights / 36 / 4096 + 7 * 4);
    const dequantising = (codes + 2 * weights) / 768e9 / 0.85 + 36 * 4 * 1.6e-6;
    expect(seconds(33, 'nf4') - seconds(33, null)).toBeCloseTo(dequantising, 9);
  });

  test('8-bit keys and values: 132 bytes instead of 256 of a head', () => {
    const saved = (33 * 64 * 2 * 36 * 8 * (256 - 132)) / 768e9 / 0.85;
    expect(seconds(33, null) - seconds(33, null, 'int8')).toBeCloseTo(saved, 9);
  });
});

describe('training', () => {
  const rates = { readBytesPerSecond: 768e9, matmulFlopsPerSecond: 155e12 };
  const sequences = new Array<{ tokens: number; completionTokens: number }>(7).fill({
    tokens: 1324,
    completionTokens: 1174,
  });
  const pass = (shares = GDDR_SHARES, loraRank: number | null = 16) =>
    gpuPassSeconds(shape, sequences, { bytesPerElement: 2, loraRank }, rates, shares);

  test('the products of a token with recomputation take 110 us on an A6000', () => {
    const flops = 6 * (parameterCount(shape) - 151_936 * 2048);
    expect(flops / rates.matmulFlopsPerSecond / GDDR_SHARES.matmul).toBeCloseTo(109e-6, 6);
  });

  test('a layer moves fewer bytes per token than the 1.4 MB of the unfused operations', () => {
    const { forward, backward } = gpuTrainingElements(shape, false);
    expect(2 * (2 * forward + backward)).toBeLessThan(0.6e6);
    const withLora = gpuTrainingElements(shape, true);
    expect(withLora.forward + withLora.backward).toBeGreaterThan(1.5 * (forward + backward));
  });

  test('less of the limit than the products alone reach: the rest is what kernels and logits move', () => {
    const { forward, backward } = pass();
    const perfect = pass({ products: 1, kernels: Infinity, matmul: 1, attention: 1, cores: 1 });
    const share = (perfect.forward + perfect.backward) / (forward + backward);
    expect(share).toBeGreaterThan(0.35);
    expect(share).toBeLessThan(0.5);
  });

  test('each pass over a quantised base dequantises all layers, at most a tenth of its time', () => {
    const quantised = gpuPassSeconds(
      shape,
      sequences,
      { bytesPerElement: 2, loraRank: 16, quantization: 'int8' },
      rates,
      GDDR_SHARES,
    );
    const parameters = 28 * (2 * 2048 * 2048 + 2 * 1024 * 2048 + 3 * 6144 * 2048);
    const scales = 28 * 4 * (2 * 2048 + 2 * 1024 + 2 * 6144 + 2048);
    const added = (parameters * (1 + 2 + 2) + scales) / 768e9 / 0.85;
    for (const part of ['forward', 'recomputation', 'backward'] as const) {
      expect(quantised[part] - pass()[part]).toBeCloseTo(added, 9);
      expect(added).toBeLessThan(0.1 * pass()[part]);
    }
  });

  test('attention is slower on a card with HBM; without an adapter the weights need gradients', () => {
    expect(pass(HBM_SHARES).forward).toBeGreaterThan(pass({ ...HBM_SHARES, attention: 0.5 }).forward);
    expect(pass(GDDR_SHARES, null).backward).toBeGreaterThan(1.3 * pass().backward);
  });
});
