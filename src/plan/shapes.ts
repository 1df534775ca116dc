/**
 * Real model shapes, for plans without files and for benchmarks on random weights: speed and memory do not
 * depend on what was learnt. Numbers are those of each model's config.json on the hub, as these public copies
 * have them: Qwen3 4B to 32B and Llama 3.1 8B from sglang/Model_Config.md of github.com/citsjtu2020/LLM-Prof,
 * Qwen2.5-1.5B, SmolLM2-1.7B, Llama 3.2 1B and R1-Distill-Llama-8B from litgpt/config.py of
 * github.com/Lightning-AI/litgpt, R1-Distill-Qwen from the GGUF metadata in
 * github.com/ollama/ollama/issues/8908 (1.5B) and github.com/likelovewant/ollama-for-amd/issues/54 (7B); the other
 * Qwen2.5, Qwen2.5-Math, Qwen3-4B-2507 and SmolLM2 from the same litgpt/config.py, the positions of Qwen2.5-7B-Instruct
 * from the config.json that github.com/kevinstephano/thunder_model_blocks quotes, Llama 3.2 3B from the files of nemo
 * that name it.
 */
import type { ModelShape } from './cost';

export interface NamedShape extends ModelShape {
  name: string;
  /** `model_type` of config.json. */
  modelType: 'qwen3' | 'qwen2' | 'llama';
  maxPositions: number;
  ropeTheta: number;
  /** `rope_scaling` of config.json. */
  ropeScaling: Record<string, number | string> | null;
  /** Number of weight files: as on the hub for Qwen3 0.6B and 1.7B, of up to 5 GB for the others. */
  shards: number;
  /** A tied head is stored in the files anyway, with the embedding's bytes, as in Qwen3 0.6B and 1.7B. */
  storesTiedHead: boolean;
}

/** What a family shares with most models. */
const USUAL = {
  numKvHeads: 8,
  headDim: 128,
  maxPositions: 131_072,
  ropeScaling: null,
  tieWordEmbeddings: false,
  storesTiedHead: false,
  qkvBias: false,
  qkNorm: false,
};

const QWEN3 = {
  ...USUAL,
  modelType: 'qwen3',
  vocabSize: 151_936,
  maxPositions: 40_960,
  ropeTheta: 1e6,
  qkNorm: true,
} as const;

const QWEN2 = { ...USUAL, modelType: 'qwen2', vocabSize: 151_936, ropeTheta: 1e4, qkvBias: true } as const;

/** Of the base models; the instructed ones have 32,768 positions. */
const QWEN25 = { ...QWEN2, ropeTheta: 1e6 } as const;
const QWEN25_MATH = { ...QWEN2, maxPositions: 4096 } as const;

const LLAMA3 = { ...USUAL, modelType: 'llama', vocabSize: 128_256, ropeTheta: 5e5 } as const;

const SMOLLM2 = {
  ...USUAL,
  modelType: 'llama',
  vocabSize: 49_152,
  headDim: 64,
  maxPositions: 8192,
  ropeTheta: 1e5,
  tieWordEmbeddings: true,
} as const;

const llama3Scaling = (factor: number) => ({
  rope_type: 'llama3',
  factor,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 8192,
});

type Sizes = [hidden: number, intermediate: number, layers: number, heads: number, shards: number];
type Shape = Omit<NamedShape, 'name'>;
type Sized = 'hiddenSize' | 'intermediateSize' | 'numLayers' | 'numHeads' | 'shards';

/** A member of a family. @param own what it does not share with the family */
function model(
  family: Omit<Shape, Sized>,
  [hiddenSize, intermediateSize, numLayers, numHeads, shards]: Sizes,
  own: Partial<Shape> = {},
): Shape {
  return { ...family, hiddenSize, intermediateSize, numLayers, numHeads, shards, ...own };
}

const TIED = { tieWordEmbeddings: true };
const TIED_AND_STORED = { tieWordEmbeddings: true, storesTiedHead: true };
const QWEN2_1_5B = model(QWEN2, [1536, 8960, 28, 12, 1], { numKvHeads: 2 });
const QWEN2_7B: Sizes = [3584, 18_944, 28, 28, 4];
const OF_7B = { vocabSize: 152_064, numKvHeads: 4 };
const LLAMA3_8B = model(LLAMA3, [4096, 14_336, 32, 32, 4], { ropeScaling: llama3Scaling(8) });

const KNOWN = {
  'qwen3-1.7b': model(QWEN3, [2048, 6144, 28, 16, 2], TIED_AND_STORED),
  'qwen3-0.6b': model(QWEN3, [1024, 3072, 28, 16, 1], TIED_AND_STORED),
  'qwen3-4b': model(QWEN3, [2560, 9728, 36, 32, 2], TIED),
  'qwen3-8b': model(QWEN3, [4096, 12_288, 36, 32, 4]),
  'qwen3-14b': model(QWEN3, [5120, 17_408, 40, 40, 6]),
  'qwen3-32b': model(QWEN3, [5120, 25_600, 64, 64, 14]),
  'qwen3-4b-2507': model(QWEN3, [2560, 9728, 36, 32, 2], { ...TIED, ropeTheta: 5e6, maxPositions: 262_144 }),
  'qwen2.5-0.5b': model(QWEN25, [896, 4864, 24, 14, 1], {
    ...TIED,
    numKvHeads: 2,
    headDim: 64,
    maxPositions: 32_768,
  }),
  'qwen2.5-1.5b': { ...QWEN2_1_5B, ...TIED, ropeTheta: 1e6 },
  'qwen2.5-1.5b-instruct': { ...QWEN2_1_5B, ...TIED, ropeTheta: 1e6, maxPositions: 32_768 },
  'qwen2.5-3b': model(QWEN25, [2048, 11_008, 36, 16, 2], { ...TIED, numKvHeads: 2, maxPositions: 32_768 }),
  'qwen2.5-7b': model(QWEN25, QWEN2_7B, OF_7B),
  'qwen2.5-7b-instruct': model(QWEN25, QWEN2_7B, { ...OF_7B, maxPositions: 32_768 }),
  'qwen2.5-14b': model(QWEN25, [5120, 13_824, 48, 40, 8], { vocabSize: 152_064 }),
  'qwen2.5-14b-instruct': model(QWEN25, [5120, 13_824, 48, 40, 8], {
    vocabSize: 152_064,
    maxPositions: 32_768,
  }),
  'qwen2.5-math-1.5b': model(QWEN25_MATH, [1536, 8960, 28, 12, 1], { ...TIED, numKvHeads: 2 }),
  'qwen2.5-math-7b': model(QWEN25_MATH, QWEN2_7B, OF_7B),
  'r1-distill-qwen-1.5b': QWEN2_1_5B,
  'r1-distill-qwen-7b': model(QWEN2, QWEN2_7B, OF_7B),
  'llama-3.2-1b': model(LLAMA3, [2048, 8192, 16, 32, 1], {
    headDim: 64,
    ropeScaling: llama3Scaling(32),
    tieWordEmbeddings: true,
  }),
  'llama-3.2-3b': model(LLAMA3, [3072, 8192, 28, 24, 2], {
    ropeScaling: llama3Scaling(32),
    tieWordEmbeddings: true,
  }),
  'llama-3.1-8b': LLAMA3_8B,
  'r1-distill-llama-8b': LLAMA3_8B,
  'smollm2-135m': model(SMOLLM2, [576, 1536, 30, 9, 1], { numKvHeads: 3 }),
  'smollm2-360m': model(SMOLLM2, [960, 2560, 32, 15, 1], { numKvHeads: 5 }),
  'smollm2-1.7b': model(SMOLLM2, [2048, 8192, 24, 32, 1], { numKvHeads: 32, ropeTheta: 130_000 }),
  /** The embedded model. */
  tiny: model(QWEN3, [96, 256, 3, 4, 1], {
    vocabSize: 64,
    numKvHeads: 2,
    headDim: 32,
    maxPositions: 1024,
    ropeTheta: 1e4,
    tieWordEmbeddings: true,
  }),
};

export type ShapeName = keyof typeof KNOWN;

export const SHAPES = Object.fromEntries(
  Object.entries(KNOWN).map(([name, shape]) => [name, { ...shape, name }]),
) as Record<ShapeName, NamedShape>;
