/** Element counts of the engine's intermediate tensors, from the shapes its code allocates. */
import { TARGET_MODULES, type TargetModule } from '../engine/types';
import { linearSizes, pairParameters, type Adapted, type ModelShape } from './cost';

const widths = (shape: ModelShape) => {
  const q = shape.numHeads * shape.headDim;
  const qkv = q + 2 * shape.numKvHeads * shape.headDim;
  return { D: shape.hiddenSize, F: shape.intermediateSize, q, qkv };
};

/**
 * Elements per token that one layer keeps for its backward (layer.cpp, `layerTapeBytes`): the residual stream
 * twice and its norms, q|k|v raw and rotated, the attention output twice, gate|up and their product.
 */
export function tapeElements(shape: ModelShape): number {
  const { D, F, q, qkv } = widths(shape);
  return 4 * D + qkv + q + 3 * F + attentionElements(shape);
}

/** The part of these that attention reads and writes: q|k|v rotated and the output. */
export function attentionElements(shape: ModelShape): number {
  const { q, qkv } = widths(shape);
  return qkv + q;
}

/**
 * Elements per token of the gradients alive at the widest point of a layer's backward (layer.cpp, inside the
 * attention): those of the activation and of gate|up, four residual streams, the attention output twice,
 * q|k|v three times.
 */
export function backwardElements(shape: ModelShape): number {
  const { D, F, q, qkv } = widths(shape);
  return 3 * F + 4 * D + 2 * q + 3 * qkv;
}

/** Linears that share an input, as indices into `TARGET_MODULES`. */
const GROUPS = [[0, 1, 2], [3], [4, 5], [6]];

/**
 * Elements of the adapter in the form that decoding multiplies by (adapters.cpp), at most: A and B in the base's
 * type while it is made, and for each group of linears one matrix with all B side by side.
 */
export function decodeAdapterElements(shape: ModelShape, adapted: readonly Adapted[]): number {
  const sizes = linearSizes(shape);
  const columnsOf = (module: TargetModule): number => {
    const group = GROUPS.find((indices) => indices.includes(TARGET_MODULES.indexOf(module)))!;
    return group.reduce((sum, i) => sum + sizes[i]![1], 0);
  };
  const side = adapted.reduce((sum, { module, rank }) => sum + rank * columnsOf(module), 0);
  return pairParameters(shape, adapted) + side;
}
