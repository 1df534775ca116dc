/** A commit of a repository, or the wanted part of it, as a folder in the shared cache. */
import { AcoerError, errorCode, hubError } from '../base/errors';
import { askCommit, askFiles } from './answers';
import { RepoCache } from './cache';
import { downloadBlob } from './download';
import { checkedRepo, fileAddress, isCommit, repoPage, repoText, type RepoType } from './names';
import { ConnectionLost, unreachable, type HubRequest } from './retry';
import type { RemoteFile } from './schemas';
import { readHubSettings } from './settings';

/** Number of files fetched at the same time. */
const PARALLEL = 4;

export interface FetchProgress {
  /** The file that made progress. */
  file: string;
  /** Bytes of all wanted files together, including those already in the cache. */
  doneBytes: number;
  totalBytes: number;
}

export interface FetchOptions {
  type: RepoType;
  /** A branch, a tag or a commit; default `main`. */
  revision?: string;
  /**
   * Whether a file is wanted, by its path in the repository with `/` between folders. Default: every file.
   */
  accept?: (path: string) => boolean;
  onProgress?: (progress: FetchProgress) => void;
  /** Called with a sentence when the hub cannot be reached and the cache's last snapshot is used instead. */
  onNotice?: (message: string) => void;
  signal?: AbortSignal;
}

export interface Snapshot {
  /** Folder with the files under their paths in the repository. */
  directory: string;
  /** The commit. */
  revision: string;
  /** The wanted files, sorted. */
  files: string[];
}

interface Fetch {
  cache: RepoCache;
  options: FetchOptions;
  request: HubRequest;
}

const isWanted = ({ options }: Fetch, path: string): boolean => options.accept?.(path) ?? true;

/** The files of a commit, from the cache (a commit never changes) or from the hub. */
async function listTree({ cache, request }: Fetch, commit: string): Promise<RemoteFile[]> {
  const known = await cache.readTree(commit);
  if (known !== null) return known;
  const files = await askFiles(request, commit);
  await cache.writeTree(commit, files);
  return files;
}

function nothingWanted({ settings, repo }: HubRequest, tree: readonly RemoteFile[]): AcoerError {
  const paths = tree.map(({ path }) => path);
  const shown = paths.slice(0, 8).join(', ');
  const more = paths.length > 8 ? ` and ${paths.length - 8} more` : '';
  return hubError(
    `${repoText(repo)} has none of the required files; it has ${shown === '' ? 'nothing' : shown}${more}. ` +
      `See ${repoPage(settings.endpoint, repo)}/tree/${repo.revision}.`,
  );
}

/** Runs `work` on every item, `PARALLEL` at a time; the first failure stops the others. */
async function inParallel<T>(
  items: readonly T[],
  request: HubRequest,
  work: (item: T, request: HubRequest) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const signal = request.signal ? AbortSignal.any([request.signal, stop.signal]) : stop.signal;
  const queue = items[Symbol.iterator]();
  const worker = async (): Promise<void> => {
    for (const item of queue) {
      if (stop.signal.aborted) return;
      await work(item, { ...request, signal }).catch((error: unknown) => stop.abort(error));
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  stop.signal.throwIfAborted();
}

async function download(fetch: Fetch, commit: string): Promise<Snapshot> {
  const { cache, options, request } = fetch;
  const { settings, repo } = request;
  const tree = await listTree(fetch, commit);
  const wanted = tree.filter(({ path }) => isWanted(fetch, path));
  if (wanted.length === 0) throw nothingWanted(request, tree);
  const totalBytes = wanted.reduce((sum, { size }) => sum + size, 0);
  const missing: RemoteFile[] = [];
  for (const file of wanted) if (!(await cache.has(commit, file))) missing.push(file);
  let doneBytes = totalBytes - missing.reduce((sum, { size }) => sum + size, 0);
  await inParallel(missing, request, async (file, own) => {
    let before = 0;
    await downloadBlob({
      request: { ...own, path: file.path },
      url: fileAddress(settings.endpoint, repo, commit, file.path),
      file,
      blob: cache.blob(file),
      onBytes: (bytes) => {
        doneBytes += bytes - before;
        before = bytes;
        options.onProgress?.({ file: file.path, doneBytes, totalBytes });
      },
    });
    await cache.link(commit, file);
  });
  await cache.writeRef(commit);
  return {
    directory: cache.snapshot(commit),
    revision: commit,
    files: wanted.map(({ path }) => path).sort(),
  };
}

/** The snapshot in the cache, without the network; null when the revision or a wanted file is not there. */
async function fromCache(fetch: Fetch): Promise<Snapshot | null> {
  const { cache } = fetch;
  const commit = await cache.cachedCommit();
  if (commit === null) return null;
  const wanted = (path: string): boolean => isWanted(fetch, path);
  const tree = (await cache.readTree(commit))?.filter(({ path }) => wanted(path));
  for (const file of tree ?? []) if (!(await cache.has(commit, file))) return null;
  // Caches of older tools have no listing, so the files there count as complete.
  const files = tree?.map(({ path }) => path).sort() ?? (await cache.filesIn(commit)).filter(wanted);
  return files.length === 0 ? null : { directory: cache.snapshot(commit), revision: commit, files };
}

async function fetchOnline(fetch: Fetch): Promise<Snapshot> {
  const { options, request } = fetch;
  const { settings, repo } = request;
  try {
    const commit = isCommit(repo.revision) ? repo.revision : await askCommit(request);
    return await download(fetch, commit);
  } catch (error) {
    if (!(error instanceof ConnectionLost)) throw error;
    const cached = await fromCache(fetch);
    if (cached === null) throw unreachable(request, error, '');
    options.onNotice?.(
      `${settings.endpoint} cannot be reached (${error.message}); using the cached ${repoText(repo)} of commit ${cached.revision.slice(0, 8)}.`,
    );
    return cached;
  }
}

/** File system errors as a sentence that names the cache. */
function cacheTrouble({ settings }: HubRequest, error: unknown): unknown {
  const { code, path, syscall } = error as NodeJS.ErrnoException;
  if (code === undefined || syscall === undefined) return error;
  const where = path ?? settings.cacheDirectory;
  const sentence =
    code === 'ENOSPC' || code === 'EDQUOT'
      ? `No space left for ${where}; free some, or set HF_HOME to another disk.`
      : `Cannot write ${where} (${code}); set HF_HOME to a writable folder.`;
  return hubError(sentence, error);
}

/**
 * Puts the wanted files of a repository into the cache shared with the Python tools and returns their folder.
 * Fetches only what is missing, resumes interrupted downloads, and checks every file against the hub's
 * listing. With HF_HUB_OFFLINE, or for a full commit that is complete in the cache, it does not use the
 * network.
 *
 * @param repo `org/name`
 * @throws HUB with one sentence saying what is wrong and what to do; INTERRUPTED when `signal` fires
 */
export async function fetchSnapshot(repo: string, options: FetchOptions): Promise<Snapshot> {
  const settings = readHubSettings();
  const checked = checkedRepo(options.type, repo, options.revision);
  const { signal } = options;
  const cache = new RepoCache(settings.cacheDirectory, checked);
  const request: HubRequest = { settings, repo: checked, signal };
  const fetch: Fetch = { cache, options, request };
  try {
    if (!settings.offline) return await fetchOnline(fetch);
    const cached = await fromCache(fetch);
    if (cached !== null) return cached;
    throw hubError(
      `${repoText(checked)} is not complete in the cache ${settings.cacheDirectory}, and HF_HUB_OFFLINE is set; unset it to fetch the files.`,
    );
  } catch (error) {
    if (signal?.aborted === true && errorCode(error) !== 'HUB') {
      const message = `The download of ${repoText(checked)} was stopped; run the same command again to resume it.`;
      throw new AcoerError('INTERRUPTED', message, { cause: error });
    }
    throw cacheTrouble(request, error);
  }
}
