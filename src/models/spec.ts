/** A model as the engine computes it, and the families whose config.json is understood. */
import type { NativeModelSpec } from '../engine/binding';
import type { Dtype } from '../engine/types';
import { badFile } from './files';

export interface ModelSpec extends NativeModelSpec {
  /** In which it is computed unless another type is asked for. */
  dtype: Dtype;
}

/** One file of this folder for each family. */
export interface ModelFamily {
  /** As in `architectures` and `model_type` of config.json. */
  architecture: string;
  modelType: string;
  /** @throws BAD_FILE naming `path`, also for what the engine does not compute */
  readSpec(config: unknown, path: string): ModelSpec;
  /** The engine's name of a tensor in the weight files; null for one that holds nothing of its own. */
  tensorName(stored: string, spec: ModelSpec): string | null;
}

const MAX_MATRIX = 1e12;

/** What must hold between the numbers of a spec. @throws BAD_FILE naming `path` */
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
