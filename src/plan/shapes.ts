/**
 * Real model shapes, for plans without files and for benchmarks on random weights: speed and memory do not
 * depend on what was learnt. Numbers are those of each model's config.json on the hub, as these public copies
 * have them: Qwen3 4B to 32B and Llama 3.1 8B from sglang/Model_Config.md of github.com/citsjtu2020/LLM-Prof,
 * Qwen2.5-1.5B, SmolLM2-1.7B, Llama 3.2 1B and R1-Distill-Llama-8B from litgpt/config.py of
 * github.com/Lightning-AI/litgpt, R1-Distill-Qwen from the GGUF metadata in
 * github.com/ollama/ollama/issues/8908 (1.5B) and github.com/likelovewant/ollama-for-amd/issues/54 (7B).
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

const QWEN3 = {
  modelType: 'qwen3',
  vocabSize: 151_936,
  numKvHeads: 8,
  headDim: 128,
  maxPositions: 40_960,
  ropeTheta: 1e6,
  ropeScaling: null,
  tieWordEmbeddings: false,
  storesTiedHead: false,
  qkvBias: false,
  qkNorm: true,
} as const;

const QWEN2 = {
  modelType: 'qwen2',
  numLayers: 28,
  headDim: 128,
  maxPositions: 131_072,
  ropeScaling: null,
  storesTiedHead: false,
  qkvBias: true,
  qkNorm: false,
} as const;

const QWEN2_1_5B = {
  ...QWEN2,
  vocabSize: 151_936,
  hiddenSize: 1536,
  intermediateSize: 8960,
  numHeads: 12,
  numKvHeads: 2,
  shards: 1,
} as const;

const LLAMA = { modelType: 'llama', storesTiedHead: false, qkvBias: false, qkNorm: false } as const;

const LLAMA3 = {
  ...LLAMA,
  vocabSize: 128_256,
  numHeads: 32,
  numKvHeads: 8,
  maxPositions: 131_072,
  ropeTheta: 5e5,
} as const;

const llama3Scaling = (factor: number) => ({
  rope_type: 'llama3',
  factor,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 8192,
});

const LLAMA3_8B = {
  ...LLAMA3,
  hiddenSize: 4096,
  intermediateSize: 14_336,
  numLayers: 32,
  headDim: 128,
  ropeScaling: llama3Scaling(8),
  tieWordEmbeddings: false,
  shards: 4,
} as const;

export const SHAPES = {
  'qwen3-1.7b': {
    ...QWEN3,
    name: 'qwen3-1.7b',
    hiddenSize: 2048,
    intermediateSize: 6144,
    numLayers: 28,
    numHeads: 16,
    tieWordEmbeddings: true,
    shards: 2,
    storesTiedHead: true,
  },
  'qwen3-0.6b': {
    ...QWEN3,
    name: 'qwen3-0.6b',
    hiddenSize: 1024,
    intermediateSize: 3072,
    numLayers: 28,
    numHeads: 16,
    tieWordEmbeddings: true,
    shards: 1,
    storesTiedHead: true,
  },
  'qwen3-4b': {
    ...QWEN3,
    name: 'qwen3-4b',
    hiddenSize: 2560,
    intermediateSize: 9728,
    numLayers: 36,
    numHeads: 32,
    tieWordEmbeddings: true,
    shards: 2,
  },
  'qwen3-8b': {
    ...QWEN3,
    name: 'qwen3-8b',
    hiddenSize: 4096,
    intermediateSize: 12_288,
    numLayers: 36,
    numHeads: 32,
    shards: 4,
  },
  'qwen3-14b': {
    ...QWEN3,
    name: 'qwen3-14b',
    hiddenSize: 5120,
    intermediateSize: 17_408,
    numLayers: 40,
    numHeads: 40,
    shards: 6,
  },
  'qwen3-32b': {
    ...QWEN3,
    name: 'qwen3-32b',
    hiddenSize: 5120,
    intermediateSize: 25_600,
    numLayers: 64,
    numHeads: 64,
    shards: 14,
  },
  'qwen2.5-1.5b': { ...QWEN2_1_5B, name: 'qwen2.5-1.5b', ropeTheta: 1e6, tieWordEmbeddings: true },
  'r1-distill-qwen-1.5b': {
    ...QWEN2_1_5B,
    name: 'r1-distill-qwen-1.5b',
    ropeTheta: 1e4,
    tieWordEmbeddings: false,
  },
  'r1-distill-qwen-7b': {
    ...QWEN2,
    name: 'r1-distill-qwen-7b',
    vocabSize: 152_064,
    hiddenSize: 3584,
    intermediateSize: 18_944,
    numHeads: 28,
    numKvHeads: 4,
    ropeTheta: 1e4,
    tieWordEmbeddings: false,
    shards: 4,
  },
  'llama-3.2-1b': {
    ...LLAMA3,
    name: 'llama-3.2-1b',
    hiddenSize: 2048,
    intermediateSize: 8192,
    numLayers: 16,
    headDim: 64,
    ropeScaling: llama3Scaling(32),
    tieWordEmbeddings: true,
    shards: 1,
  },
  'llama-3.1-8b': { ...LLAMA3_8B, name: 'llama-3.1-8b' },
  'r1-distill-llama-8b': { ...LLAMA3_8B, name: 'r1-distill-llama-8b' },
  'smollm2-1.7b': {
    ...LLAMA,
    name: 'smollm2-1.7b',
    vocabSize: 49_152,
    hiddenSize: 2048,
    intermediateSize: 8192,
    numLayers: 24,
    numHeads: 32,
    numKvHeads: 32,
    headDim: 64,
    maxPositions: 8192,
    ropeTheta: 130_000,
    ropeScaling: null,
    tieWordEmbeddings: true,
    shards: 1,
  },
  /** The embedded model. */
  tiny: {
    ...QWEN3,
    name: 'tiny',
    vocabSize: 64,
    hiddenSize: 96,
    intermediateSize: 256,
    numLayers: 3,
    numHeads: 4,
    numKvHeads: 2,
    headDim: 32,
    maxPositions: 1024,
    ropeTheta: 1e4,
    tieWordEmbeddings: true,
    shards: 1,
  },
} as const satisfies Record<string, NamedShape>;

export type ShapeName = keyof typeof SHAPES;
