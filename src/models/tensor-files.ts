/** The tensors of safetensors files as the engine receives them: a table of positions, and the open files. */
import type { FileHandle } from 'node:fs/promises';
import type { NativeStoredTensor, NativeTensorTable } from '../engine/binding';
import { badFile, openRegularFile, readBytes } from './files';
import { headerPlace, parseHeader, type Complaint } from './safetensors';

/**
 * Limit for all files of a model, an adapter or an optimiser; the largest dense models have about 1,200
 * weights.
 */
const MAX_TENSORS = 5_000;
const COMPARED_BYTES = 1 << 22;

/** The engine's name of a tensor in a file; null for one that it does not use. */
export type TensorNames = (stored: string) => string | null;

/** The files stay open until disposed of, so that the table stays true even if their paths are replaced. */
export class TensorFiles implements AsyncDisposable {
  private readonly handles: FileHandle[] = [];
  readonly table: NativeTensorTable = { files: [], tensors: [] };

  /** @throws BAD_FILE */
  async add(path: string, names: TensorNames): Promise<void> {
    const { file, bytes } = await openRegularFile(path);
    this.handles.push(file);
    const bad: Complaint = (what, cause) =>
      badFile(`${path} is damaged or not a safetensors file: ${what}`, cause);
    const { from, to } = headerPlace(await readBytes(file, path, 0, Math.min(8, bytes)), bytes, bad);
    const places = parseHeader(await readBytes(file, path, from, to - from), bytes, bad);
    const { files, tensors } = this.table;
    if (tensors.length + places.length > MAX_TENSORS) {
      throw badFile(`${path} brings the number of tensors above the limit of ${MAX_TENSORS}`);
    }
    for (const place of places) {
      const name = names(place.name);
      if (name !== null) tensors.push({ ...place, name, file: files.length });
    }
    files.push({ descriptor: file.fd, path });
  }

  /** Whether two tensors of the table have the same type, shape and bytes. @throws BAD_FILE */
  async equal(a: NativeStoredTensor, b: NativeStoredTensor): Promise<boolean> {
    const bytes = a.end - a.begin;
    if (a.dtype !== b.dtype || a.shape.join() !== b.shape.join() || bytes !== b.end - b.begin) return false;
    const part = ({ file, begin }: NativeStoredTensor, from: number, count: number) =>
      readBytes(this.handles[file]!, this.table.files[file]!.path, begin + from, count);
    for (let from = 0; from < bytes; from += COMPARED_BYTES) {
      const count = Math.min(COMPARED_BYTES, bytes - from);
      const [ours, theirs] = await Promise.all([part(a, from, count), part(b, from, count)]);
      if (!ours.equals(theirs)) return false;
    }
    return true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.handles.map((handle) => handle.close()));
  }
}

/**
 * Opens files, and adds to what is made of them how to close them again.
 * @throws BAD_FILE, with nothing left open
 */
export async function openFilesAs<T extends object>(
  paths: readonly string[],
  make: (files: TensorFiles) => T | Promise<T>,
  names: TensorNames = (stored) => stored,
): Promise<T & AsyncDisposable> {
  const files = new TensorFiles();
  const close = () => files[Symbol.asyncDispose]();
  try {
    for (const path of paths) await files.add(path, names);
    return { ...(await make(files)), [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** @throws BAD_FILE, with nothing left open */
export const openTensorFiles = (paths: readonly string[], names?: TensorNames) =>
  openFilesAs(paths, ({ table }) => ({ table }), names);
