/** The weights in a GGUF file, under the engine's names. What they mean is told by the model that they belong to. */
import type { FileHandle } from 'node:fs/promises';
import type { NativeTensorTable } from '../engine/binding';
import { badFile, openRegularFile, readBytes } from './files';
import { type GgufArchitecture, modelTensorName, turnedHeads } from './gguf-names';
import { type GgufHeader, MAX_GGUF_HEADER_BYTES, MoreNeeded, parseGguf } from './gguf-reader';
import type { Complaint } from './safetensors';
import type { ModelSpec } from './spec';

/** Enough for a model without a tokenizer; a header that is longer is read again. */
const FIRST_BYTES = 1 << 20;

/** The file stays open until this is disposed of. */
export interface GgufFile extends AsyncDisposable, Pick<GgufHeader, 'keys'> {
  weights: NativeTensorTable;
}

/** @throws BAD_FILE */
async function headerOf(file: FileHandle, fileBytes: number, path: string): Promise<GgufHeader> {
  const bad: Complaint = (what, cause) => badFile(`${path} is damaged or not a GGUF file: ${what}`, cause);
  const most = Math.min(fileBytes, MAX_GGUF_HEADER_BYTES);
  for (let count = Math.min(FIRST_BYTES, most); ; count = Math.min(8 * count, most)) {
    try {
      return parseGguf(await readBytes(file, path, 0, count), fileBytes, bad);
    } catch (error) {
      if (!(error instanceof MoreNeeded)) throw error;
    }
  }
}

/** What a GGUF file says of itself, without its weights, and its size. @throws BAD_FILE */
export async function readGgufHeader(path: string): Promise<GgufHeader & { bytes: number }> {
  const { file, bytes } = await openRegularFile(path);
  try {
    return { ...(await headerOf(file, bytes, path)), bytes };
  } finally {
    await file.close();
  }
}

/** @throws BAD_FILE, with nothing left open */
export async function openGguf(path: string, spec: ModelSpec): Promise<GgufFile> {
  const { file, bytes: fileBytes } = await openRegularFile(path);
  try {
    const { keys, tensors } = await headerOf(file, fileBytes, path);
    const architecture = keys.get('general.architecture') as GgufArchitecture;
    const named = tensors.flatMap((tensor) => {
      const name = modelTensorName(tensor.name);
      if (name === null) return [];
      return [{ ...tensor, name, file: 0, heads: turnedHeads(name, architecture, spec) }];
    });
    const weights = { files: [{ descriptor: file.fd, path }], tensors: named };
    return { keys, weights, [Symbol.asyncDispose]: () => file.close() };
  } catch (error) {
    await file.close();
    throw error;
  }
}
