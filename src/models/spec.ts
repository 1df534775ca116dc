/** A model as the engine computes it, and the model families whose config.json can be read. */
import type { NativeModelSpec } from '../engine/binding';
import type { Dtype } from '../engine/types';
import { badFile } from './files';

export interface ModelSpec extends NativeModelSpec {
  /** The type to compute in unless another is requested. */
  dtype: Dtype;
}

/** How to read the files of a model family. The built-in ones are in families.ts. */
export interface ModelFamily {
  /** Its name in `architectures` of config.json. */
  architecture: string;
  /** Its name in `model_type`. */
  modelType: string;
  /**
   * Reads the value of config.json. @throws for a missing or wrong field, and for features that the engine
   * does not support
   */
  readSpec(config: unknown, path: string): ModelSpec;
  /** The engine's name of a tensor in the weight files; null leaves the tensor out. */
  tensorName(stored: string, spec: ModelSpec): string | null;
}

const MAX_MATRIX = 1e12;

/** Checks the relations between the numbers of a spec. @throws BAD_FILE naming `path` */
export function checkedSpec(spec: ModelSpec, path: string): ModelSpec {
  const { numHeads, numKvHeads, headDim, hiddenSize, vocabSize, intermediateSize } = spec;
  if (numHeads % numKvHeads !== 0) {
    throw badFile(
      `${path} has num_attention_heads ${numHeads}, which num_key_value_heads ${numKvHeads} does not divide`,
    );
  }
  if (headDim % 2 !== 0) {
    throw badFile(`${path} has the odd head_dim ${headDim}; rotary embeddings need an even one`);
  }
  if (Math.max(vocabSize, numHeads * headDim, intermediateSize) * hiddenSize > MAX_MATRIX) {
    throw badFile(`${path} describes a matrix of more than 10^12 numbers`);
  }
  return spec;
}
