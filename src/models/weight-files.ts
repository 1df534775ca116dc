/** Weights that are read without loading a model: its own or others of its shapes, and an adapter. */
import type { NativeTensorTable } from '../engine/binding';
import type { WeightSource } from '../engine/types';
import { openAdapter, type AdapterFiles } from './adapter';
import { openGguf } from './gguf-files';
import { openModelFiles } from './model-files';
import type { ModelSpec } from './spec';
import { openTensorFiles, type TensorNames } from './tensor-files';

/** The files stay open until this is disposed of. */
export interface WeightFiles extends AsyncDisposable {
  spec: ModelSpec;
  /** Maps tensor names in the model's files to the engine's names. */
  names: TensorNames;
  weights: NativeTensorTable;
  adapter: AdapterFiles | null;
}

/** @throws BAD_FILE, with nothing left open */
export async function openWeights({ model, weights, adapter }: WeightSource): Promise<WeightFiles> {
  const opened: AsyncDisposable[] = [];
  const keep = <T extends AsyncDisposable>(files: T): T => {
    opened.push(files);
    return files;
  };
  const close = async () => {
    await Promise.all(opened.map((files) => files[Symbol.asyncDispose]()));
  };
  try {
    const { spec, names, weights: own } = keep(await openModelFiles(model));
    const given = weights === null ? null : await tableOf(weights);
    const lora = adapter === null ? null : keep(await openAdapter(adapter, spec.numLayers));
    return { spec, names, weights: given ?? own, adapter: lora, [Symbol.asyncDispose]: close };

    async function tableOf(path: string): Promise<NativeTensorTable> {
      if (path.endsWith('.gguf')) return keep(await openGguf(path, spec)).weights;
      return keep(await openTensorFiles([path], names)).table;
    }
  } catch (error) {
    await close();
    throw error;
  }
}
