/** SHA-256 of the files of a model, by which a run knows the model that it was trained on. */
import { basename, join } from 'node:path';
import { adapterWeights } from './adapter';
import { badFile, openRegularFile } from './files';
import { weightFiles } from './model-files';
import { errorMessage } from '../base/errors';
import { sha256Of } from '../base/regular-file';

/** SHA-256 in hex by the name of the file or part. */
export type Fingerprints = Readonly<Record<string, string>>;

async function fileSha256(path: string, signal?: AbortSignal): Promise<string> {
  const { file } = await openRegularFile(path);
  try {
    return await sha256Of(file, signal);
  } catch (cause) {
    signal?.throwIfAborted();
    throw badFile(`cannot read ${path}: ${errorMessage(cause)}`, cause);
  }
}

async function fingerprintsOf(paths: readonly string[], signal?: AbortSignal): Promise<Fingerprints> {
  const found: Record<string, string> = {};
  for (const path of paths) found[basename(path)] = await fileSha256(path, signal);
  return found;
}

/** The shape and weights of an adapter. @throws BAD_FILE */
export const adapterFingerprints = (directory: string): Promise<Fingerprints> =>
  fingerprintsOf([join(directory, 'adapter_config.json'), adapterWeights(directory)]);

/**
 * config.json and every file of weights, as `sha256sum` prints them.
 * @throws BAD_FILE; the signal's reason
 */
export async function modelFingerprints(directory: string, signal?: AbortSignal): Promise<Fingerprints> {
  return fingerprintsOf([join(directory, 'config.json'), ...(await weightFiles(directory))], signal);
}
