/**
 * Downloads one blob into a partial file that survives an interruption, checks it, and only then renames it.
 */
import { createHash, type Hash } from 'node:crypto';
import { rename, rm, statfs, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AcoerError } from '../base/errors';
import { errorCode, hubError } from '../base/errors';
import { makeFolders } from '../base/folders';
import { openRegularFile } from '../base/regular-file';
import { gigabytes, megabytes } from '../base/text';
import { chunksOf, leastBytes } from './body';
import { sizeOf } from './cache';
import { repoText } from './names';
import { claimPartial, releasePartial } from './partial';
import { hostOf } from './refusals';
import { requestOnce } from './request';
import { ConnectionLost, type HubRequest, RangeRefused, unreachable, waitBeforeRetry } from './retry';
import type { RemoteFile } from './schemas';

const POLL_MS = 500;

export interface BlobDownload {
  request: HubRequest;
  url: string;
  file: RemoteFile;
  /** Path of the blob. */
  blob: string;
  /** Called with the number of bytes of this file on disk. */
  onBytes: (bytes: number) => void;
}

/** A checksum for streamed bytes. */
function checksum(file: RemoteFile): Hash {
  return file.sha256 !== null ? createHash('sha256') : createHash('sha1').update(`blob ${file.size}\0`);
}

const kept = (bytes: number): string => (bytes > 0 ? 'the partial file is kept; ' : '');

class WrongContent extends Error {}

/** A partial file with the checksum of its bytes so far. */
class PartialFile {
  /** What its last bytes came from. */
  from: Response | null = null;

  private constructor(
    readonly path: string,
    readonly handle: FileHandle,
    private readonly file: RemoteFile,
    private hash: Hash,
    public bytes: number,
  ) {}

  static async open(path: string, file: RemoteFile, signal?: AbortSignal): Promise<PartialFile> {
    const { file: handle, bytes: size } = await openRegularFile(path, 'to write');
    const partial = new PartialFile(path, handle, file, checksum(file), 0);
    if (size > file.size) await partial.restart();
    else if (size > 0) {
      for await (const chunk of handle.createReadStream({
        start: 0,
        end: size - 1,
        autoClose: false,
        signal,
      })) {
        partial.hash.update(chunk as Buffer);
        partial.bytes += (chunk as Buffer).length;
      }
    }
    return partial;
  }

  async restart(): Promise<void> {
    await this.handle.truncate(0);
    this.hash = checksum(this.file);
    this.bytes = 0;
  }

  async append(chunk: Uint8Array): Promise<void> {
    if (this.bytes + chunk.length > this.file.size) throw new WrongContent();
    // Write at a position, never append: if two processes ever write to one file, they write the same bytes.
    for (let done = 0; done < chunk.length;) {
      done += (await this.handle.write(chunk, done, chunk.length - done, this.bytes + done)).bytesWritten;
    }
    this.hash.update(chunk);
    this.bytes += chunk.length;
  }

  /** Throws WrongContent unless the checksum is the one the hub lists. */
  check(): void {
    if (this.hash.copy().digest('hex') !== (this.file.sha256 ?? this.file.gitId)) throw new WrongContent();
  }
}

/** Requests the missing bytes and appends them. */
async function fetchRest({ request, url, onBytes }: BlobDownload, partial: PartialFile): Promise<void> {
  const headers: Record<string, string> = partial.bytes > 0 ? { range: `bytes=${partial.bytes}-` } : {};
  const response = await requestOnce(request, url, headers);
  partial.from = response;
  const start = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
  // A server that does not support ranges, or returns another one, sends the file from its start.
  if (response.status !== 206) {
    if (partial.bytes > 0) await partial.restart();
  } else if (Number(start) !== partial.bytes) throw new WrongContent();
  for await (const chunk of chunksOf(response, request)) {
    await partial.append(chunk);
    onBytes(partial.bytes);
  }
}

/** Downloads the rest of the partial file, reconnecting when the connection is lost. */
async function fill(download: BlobDownload, partial: PartialFile): Promise<void> {
  const { request, file } = download;
  let failures = 0;
  while (partial.bytes < file.size) {
    const before = partial.bytes;
    try {
      await fetchRest(download, partial);
      if (partial.bytes < file.size) throw new ConnectionLost('the connection closed before the end');
    } catch (error) {
      if (error instanceof RangeRefused) await partial.restart();
      else if (!(error instanceof ConnectionLost)) throw error;
      // A few bytes per connection are no progress.
      failures = partial.bytes - before >= leastBytes(request) ? 1 : failures + 1;
      const lost = error instanceof ConnectionLost ? error : new ConnectionLost('no range was accepted');
      await waitBeforeRetry(failures, lost, request.signal).catch((reason: unknown) => {
        throw reason === lost ? unreachable(request, lost, kept(partial.bytes)) : reason;
      });
    }
  }
}

function wrongContent({ request, file }: BlobDownload, from: Response | null): AcoerError {
  const kind = file.sha256 === null ? 'git id' : 'SHA-256';
  const type = from?.headers.get('content-type') ?? 'no content type';
  const source = from === null ? '' : ` from ${hostOf(from, request)} (${type})`;
  return hubError(
    `${file.path} of ${repoText(request.repo)} arrived${source} with a different ${kind} or size than ${request.settings.endpoint} lists; ` +
      'it was discarded: run the same command again, and if that does not help, look for a login page, proxy or mirror that changes files.',
  );
}

function diskFull({ request, file, blob }: BlobDownload, missing: number, cause?: unknown): AcoerError {
  return hubError(
    `No space left in ${dirname(blob)} for ${file.path} of ${repoText(request.repo)}, which needs ${sizeText(missing)} more; ` +
      'free some, or set HF_HOME to a folder on another disk, and run the same command again.',
    cause,
  );
}

const sizeText = (bytes: number): string => (bytes < 1e8 ? megabytes(bytes) : gigabytes(bytes, 1));

async function checkSpace(download: BlobDownload, missing: number): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(download.blob));
  if (bavail * bsize < missing) throw diskFull(download, missing);
}

/** Downloads the rest of the partial file and checks it; wrong bytes left by an earlier process are fetched again. */
async function fillAndCheck(download: BlobDownload, partial: PartialFile): Promise<void> {
  const resumed = partial.bytes > 0;
  try {
    await fill(download, partial);
    partial.check();
  } catch (error) {
    if (!resumed || !(error instanceof WrongContent)) throw error;
    await partial.restart();
    await fill(download, partial);
    partial.check();
  }
}

/** Completes the file at `path` and renames it; removes it if its bytes stay wrong. */
async function complete(download: BlobDownload, path: string): Promise<void> {
  const { file, blob, onBytes, request } = download;
  const partial = await PartialFile.open(path, file, request.signal);
  try {
    if (partial.bytes > 0) onBytes(partial.bytes);
    await checkSpace(download, file.size - partial.bytes);
    await fillAndCheck(download, partial);
    await partial.handle.sync();
    await rename(path, blob);
  } catch (error) {
    if (error instanceof WrongContent) {
      await rm(path, { force: true });
      throw wrongContent(download, partial.from);
    }
    if (errorCode(error) === 'ENOSPC' || errorCode(error) === 'EDQUOT') {
      throw diskFull(download, file.size - partial.bytes, error);
    }
    throw error;
  } finally {
    await partial.handle.close();
    await releasePartial(blob, path);
  }
}

/**
 * Ensures that `blob` exists, complete and checked; waits if another process is fetching it. Downloads at most twice.
 *
 * @throws HUB for everything except the caller's own abort
 */
export async function downloadBlob(download: BlobDownload): Promise<void> {
  const { file, blob, onBytes, request } = download;
  makeFolders(dirname(blob));
  while ((await sizeOf(blob)) !== file.size) {
    const claim = await claimPartial(blob);
    if ('path' in claim) {
      await complete(download, claim.path);
      break;
    }
    onBytes(claim.busy.bytes);
    await sleep(POLL_MS, undefined, { signal: request.signal });
  }
  onBytes(file.size);
}
