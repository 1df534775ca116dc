/** Real model shapes, for benchmarks on random weights: speed and memory do not depend on what was learnt. */
import type { ModelShape } from './cost';

export interface NamedShape extends ModelShape {
  name: string;
  maxPositions: number;
  ropeTheta: number;
  /** Number of weight files, as on the hub. */
  shards: number;
  /** A tied head is stored in the files anyway, with the embedding's bytes, as in Qwen's own small models. */
  storesTiedHead: boolean;
}

export const SHAPES = {
  'qwen3-1.7b': {
    name: 'qwen3-1.7b',
    vocabSize: 151_936,
    hiddenSize: 2048,
    intermediateSize: 6144,
    numLayers: 28,
    numHeads: 16,
    numKvHeads: 8,
    headDim: 128,
    maxPositions: 40_960,
    ropeTheta: 1e6,
    tieWordEmbeddings: true,
    shards: 2,
    storesTiedHead: true,
  },
  'qwen3-0.6b': {
    name: 'qwen3-0.6b',
    vocabSize: 151_936,
    hiddenSize: 1024,
    intermediateSize: 3072,
    numLayers: 28,
    numHeads: 16,
    numKvHeads: 8,
    headDim: 128,
    maxPositions: 40_960,
    ropeTheta: 1e6,
    tieWordEmbeddings: true,
    shards: 1,
    storesTiedHead: true,
  },
  /** The embedded model. */
  tiny: {
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
    storesTiedHead: false,
  },
} as const satisfies Record<string, NamedShape>;

export type ShapeName = keyof typeof SHAPES;
