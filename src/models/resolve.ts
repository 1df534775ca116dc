/** Finds the folder of a model by its name. */
import { existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { badInput, errorCode, errorMessage, hubError } from '../base/errors';
import { fetchSnapshot, looksLikeHubId, splitRevision, type FetchOptions } from '../hub';

/** The folder of the embedded model. */
export const TINY_MODEL = join(__dirname, '..', '..', 'assets', 'tiny');

export interface ModelLocation {
  /** Config, weights and tokenizer in Hugging Face's layout. */
  directory: string;
  /** A name that always means the same model: `tiny`, an absolute path, or `org/name@commit`. */
  name: string;
}

/** Callbacks and abort signal of a download. */
export type ModelFetchOptions = Pick<FetchOptions, 'onProgress' | 'onNotice' | 'signal'>;

/** The files at the top of a repository that we need; weights in other formats are not fetched. */
const MODEL_FILE =
  /^(?:config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json$|^(?:merges\.txt|chat_template\.jinja|model\.safetensors\.index\.json|model(?:-\d+-of-\d+)?\.safetensors)$/;

/**
 * `tiny` is the embedded model; an existing folder is used as it is; any other `org/name` or
 * `org/name@revision` is on the Hugging Face hub and is fetched into the shared cache if it is not there.
 *
 * @throws BAD_INPUT for a folder without a model, HUB when the model cannot be fetched from the hub,
 * INTERRUPTED by the signal
 */
export async function resolveModel(name: string, options: ModelFetchOptions = {}): Promise<ModelLocation> {
  if (name === 'tiny') return { directory: TINY_MODEL, name };
  const directory = resolve(name);
  if (existsSync(directory)) return { directory: checkedFolder(name, directory), name: directory };
  if (looksLikeHubId(name)) return fetchModel(name, options);
  throw badInput(
    `model ${name}: no such folder; name a folder with config.json and model.safetensors, a model on the Hugging Face hub as org/name, or the word tiny.`,
  );
}

/** The files of a tokenizer and its chat template. */
const TOKENIZER_FILE = /^(?:tokenizer|tokenizer_config|generation_config)\.json$|^chat_template\.jinja$/;

/** The files with the model's shape and size. */
const SHAPE_FILE = /^(?:config|tokenizer)\.json$/;

/** A folder with these files of the model. For a model on the hub, nothing else is fetched. */
async function resolvePart(name: string, files: RegExp, options: ModelFetchOptions): Promise<string> {
  if (name === 'tiny' || existsSync(name) || !looksLikeHubId(name)) {
    return (await resolveModel(name, options)).directory;
  }
  return (await fetchFiles(name, files, options)).directory;
}

/** The folder of a model's tokenizer, fetched without the weights. */
export const resolveTokenizer = (name: string, options: ModelFetchOptions = {}): Promise<string> =>
  resolvePart(name, TOKENIZER_FILE, options);

/** The folder of a model's config.json and tokenizer.json, fetched without the weights. */
export const resolveShape = (name: string, options: ModelFetchOptions = {}): Promise<string> =>
  resolvePart(name, SHAPE_FILE, options);

function checkedFolder(name: string, directory: string): string {
  if (existsSync(join(directory, 'config.json'))) return directory;
  const wrong = statSync(directory).isDirectory()
    ? 'this folder has no config.json; name a folder in Hugging Face layout.'
    : 'this is a file; name the folder with config.json and the weights.';
  throw badInput(`model ${name}: ${wrong}`);
}

/** These files of a model on the hub. */
function fetchFiles(name: string, wanted: RegExp, options: ModelFetchOptions) {
  const { id, revision } = splitRevision(name);
  const accept = (path: string): boolean => wanted.test(path);
  return fetchSnapshot(id, { type: 'model', revision, accept, ...options });
}

async function fetchModel(name: string, options: ModelFetchOptions): Promise<ModelLocation> {
  const snapshot = await fetchFiles(name, MODEL_FILE, options).catch((error: unknown) => {
    throw withFolderInMind(name, error);
  });
  const { directory, files } = snapshot;
  const missing = [
    ...(files.includes('config.json') ? [] : ['config.json']),
    ...(files.some((file) => file.endsWith('.safetensors')) ? [] : ['weights in safetensors']),
  ];
  if (missing.length > 0) {
    throw hubError(
      `model ${name} has no ${missing.join(' and no ')}, so it cannot be loaded; name another model or revision.`,
    );
  }
  return { directory, name: `${splitRevision(name).id}@${snapshot.revision}` };
}

/** `runs/one` next to an existing `runs` was more likely meant as a folder than as a name on the hub. */
function withFolderInMind(name: string, error: unknown): unknown {
  if (errorCode(error) !== 'HUB' || !existsSync(dirname(resolve(name)))) return error;
  return hubError(`There is no folder ${name}, and ${errorMessage(error)}`, error);
}
