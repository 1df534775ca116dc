/** A commit of a repository, or the part of it that is wanted, as a folder of the shared cache. */
import { join } from 'node:path';
import { AcoerError, errorCode } from '../errors';
import { RepoCache, type RemoteFile } from './cache';
import { downloadBlob } from './download';
import { checkedRepo, fileAddress, isCommit, repoPage, repoText, type Repo, type RepoType } from './names';
import { ConnectionLost, hubFetch, unreachable, type HubRequest } from './request';
import { readHubSettings, type HubSettings } from './settings';

/** Files that are fetched at the same time. */
const PARALLEL = 4;

export interface FetchProgress {
  /** The file that moved. */
  file: string;
  /** Of all wanted files together, those included that were there before. */
  doneBytes: number;
  totalBytes: number;
}

export interface FetchOptions {
  type: RepoType;
  /** A branch, a tag or a commit; default `main`. */
  revision?: string;
  /** Whether a file, by its path in the repository with `/` between folders, is wanted; default: every file. */
  accept?: (path: string) => boolean;
  onProgress?: (progress: FetchProgress) => void;
  /** Called with a sentence when the hub cannot be reached and the cache's last snapshot is used instead. */
  onNotice?: (message: string) => void;
  signal?: AbortSignal;
}

export interface Snapshot {
  /** Holds the files under their paths in the repository. */
  directory: string;
  /** The commit. */
  revision: string;
  /** The wanted files, sorted. */
  files: string[];
}

interface Fetch {
  settings: HubSettings;
  repo: Repo;
  cache: RepoCache;
  options: FetchOptions;
  request: HubRequest;
}

/** The commit a branch or tag points at, from the hub. */
async function askCommit({ settings, repo, request }: Fetch): Promise<string> {
  const { datasetInfo, modelInfo } = await import('@huggingface/hub');
  const question = {
    name: repo.id,
    revision: repo.revision,
    hubUrl: settings.endpoint,
    fetch: hubFetch(request),
  };
  const { sha } =
    repo.type === 'model'
      ? await modelInfo({ ...question, additionalFields: ['sha'] })
      : await datasetInfo({ ...question, additionalFields: ['sha'] });
  if (typeof sha === 'string' && isCommit(sha)) return sha;
  throw new AcoerError(
    'HUB',
    `${settings.endpoint} names no commit for ${repoText(repo)}; check that HF_ENDPOINT is a Hugging Face hub.`,
  );
}

/** What a commit holds: from the cache, where it is known for good, or from the hub. */
async function listTree({ settings, repo, cache, request }: Fetch, commit: string): Promise<RemoteFile[]> {
  const known = await cache.readTree(commit);
  if (known !== null) return known;
  const { listFiles } = await import('@huggingface/hub');
  const files: RemoteFile[] = [];
  const listing = listFiles({
    repo: { type: repo.type, name: repo.id },
    revision: commit,
    recursive: true,
    hubUrl: settings.endpoint,
    fetch: hubFetch(request),
  });
  for await (const { type, path, size, oid, lfs, xetHash } of listing) {
    if (type !== 'file') continue;
    const safe = !path.startsWith('/') && !path.split(/[/\\]/).includes('..');
    if (
      !safe ||
      oid === undefined ||
      !/^[0-9a-f]{40}$/.test(oid) ||
      (lfs && !/^[0-9a-f]{64}$/.test(lfs.oid))
    ) {
      throw new AcoerError(
        'HUB',
        `${repoText(repo)} lists ${JSON.stringify(path)} in a way that cannot be stored.`,
      );
    }
    files.push({
      path,
      size: lfs?.size ?? size,
      gitId: oid,
      sha256: lfs?.oid ?? null,
      xetHash: /^[0-9a-f]{64}$/.test(xetHash ?? '') ? xetHash! : null,
    });
  }
  await cache.writeTree(commit, files);
  return files;
}

function nothingWanted({ settings, repo }: Fetch, paths: readonly string[]): AcoerError {
  const shown = paths.slice(0, 8).join(', ');
  const more = paths.length > 8 ? ` and ${paths.length - 8} more` : '';
  return new AcoerError(
    'HUB',
    `${repoText(repo)} holds none of the files that are needed; it holds ${shown === '' ? 'nothing' : shown}${more}. ` +
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
  let failure: { error: unknown } | null = null;
  const worker = async (): Promise<void> => {
    for (const item of queue) {
      try {
        await work(item, { ...request, signal });
      } catch (error) {
        failure ??= { error };
        stop.abort();
      }
      if (failure !== null) return;
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  if (failure !== null) throw (failure as { error: unknown }).error;
}

async function download(fetch: Fetch, commit: string): Promise<Snapshot> {
  const { settings, repo, cache, options, request } = fetch;
  const tree = await listTree(fetch, commit);
  const wanted = tree.filter(({ path }) => options.accept?.(path) ?? true);
  if (wanted.length === 0)
    throw nothingWanted(
      fetch,
      tree.map(({ path }) => path),
    );
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

/** What the cache holds, without the network; null when the revision, or a wanted file of it, is not there. */
async function fromCache({ cache, options }: Fetch): Promise<Snapshot | null> {
  const commit = await cache.cachedCommit();
  if (commit === null) return null;
  const wanted = (path: string): boolean => options.accept?.(path) ?? true;
  const tree = (await cache.readTree(commit))?.filter(({ path }) => wanted(path));
  for (const file of tree ?? []) if (!(await cache.has(commit, file))) return null;
  // Caches of older tools hold no listing: what is there counts as all there is.
  const files = tree?.map(({ path }) => path).sort() ?? (await cache.filesIn(commit)).filter(wanted);
  return files.length === 0 ? null : { directory: cache.snapshot(commit), revision: commit, files };
}

async function fetchOnline(fetch: Fetch): Promise<Snapshot> {
  const { repo, settings, options, request } = fetch;
  try {
    const commit = isCommit(repo.revision) ? repo.revision : await askCommit(fetch);
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

/** Errors of the file system as a sentence that names the cache. */
function cacheTrouble({ settings }: Fetch, error: unknown): unknown {
  const { code, path } = error as NodeJS.ErrnoException;
  const where = path ?? settings.cacheDirectory;
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
    return new AcoerError('HUB', `Cannot write ${where}; set HF_HOME to a folder you may write to.`, {
      cause: error,
    });
  }
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new AcoerError('HUB', `No space left for ${where}; free some, or set HF_HOME to another disk.`, {
      cause: error,
    });
  }
  return error;
}

/**
 * Makes the wanted files of a repository lie in the cache that the Python tools share, and says where. Fetches what
 * is missing only, goes on where an interrupted download stopped, and checks every file against the hub's listing.
 * With HF_HUB_OFFLINE, or with a full commit that is complete in the cache, the network is not touched.
 *
 * @param repo `org/name`
 * @throws HUB with one sentence on what is wrong and what to do; INTERRUPTED when `signal` fires
 */
export async function fetchSnapshot(repo: string, options: FetchOptions): Promise<Snapshot> {
  const settings = readHubSettings();
  const checked = checkedRepo(options.type, repo, options.revision);
  const { signal } = options;
  const cache = new RepoCache(settings.cacheDirectory, checked);
  const fetch: Fetch = {
    settings,
    repo: checked,
    cache,
    options,
    request: { settings, repo: checked, signal },
  };
  try {
    if (!settings.offline) return await fetchOnline(fetch);
    const cached = await fromCache(fetch);
    if (cached !== null) return cached;
    throw new AcoerError(
      'HUB',
      `${repoText(checked)} is not complete in the cache ${join(settings.cacheDirectory)}, and HF_HUB_OFFLINE is set; unset it once to fetch it.`,
    );
  } catch (error) {
    if (signal?.aborted === true && errorCode(error) !== 'HUB') {
      const message = `The download of ${repoText(checked)} was stopped; the same command goes on where it stopped.`;
      throw new AcoerError('INTERRUPTED', message, { cause: error });
    }
    throw cacheTrouble(fetch, error);
  }
}
