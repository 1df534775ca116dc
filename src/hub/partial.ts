/**
 * Partial downloads. A partial file is next to its blob as `<checksum>.<owner>.incomplete`, where the owner
 * is a process, given by its id and start time, and the machine and container that count these. That name is
 * the only lock. While the owner lives, or may live elsewhere and the file grows, others wait for it; when it
 * is dead, one of them takes the file over by renaming it and resumes where it ends. Of two processes that
 * start together, the later one backs off. If both download anyway, nothing breaks: each has its own file,
 * and the same bytes are renamed to the blob twice.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../base/errors';
import { bootId, pidNamespace, startTicks } from '../base/process';

/** A live owner whose file has not grown for this long is not waited for. */
const STALLED_MS = 60_000;
const SUFFIX = '.incomplete';

/** The processes that are seen here: those of this machine since its start, in this container. */
const place = (): string =>
  createHash('sha256').update(`${bootId()} ${pidNamespace()}`).digest('hex').slice(0, 8);

const thisProcess = (): string => `${process.pid}-${startTicks(process.pid)}-${place()}`;

/** Whether an owner may be alive: one elsewhere, with which the cache is shared, cannot be asked. */
const mayLive = (pid: string, start: string, where: string): boolean =>
  pid !== '0' && (where !== place() || startTicks(Number(pid)) === start);

const nameFor = (blob: string, owner: string): string =>
  `${blob}.${owner}-${Date.now()}${randomBytes(2).toString('hex')}${SUFFIX}`;
/** No process has id 0, so the next one takes the file over. */
const NOBODY = '0-0-00000000';

interface PartialEntry {
  path: string;
  bytes: number;
  /** The end of its name, which sorts by time of creation. */
  made: string;
  /** Its owner is or may be alive, and it grew recently. */
  busy: boolean;
}

async function partialsOf(blob: string): Promise<PartialEntry[]> {
  const pattern = /^\.(\d+)-(\d+)-([0-9a-f]{8})-([0-9a-f]+)\.incomplete$/;
  const found: PartialEntry[] = [];
  for (const name of await readdir(dirname(blob))) {
    if (!name.startsWith(basename(blob))) continue;
    const owner = pattern.exec(name.slice(basename(blob).length));
    if (owner === null) continue;
    const path = join(dirname(blob), name);
    try {
      const info = await stat(path);
      // A pipe or a device under such a name is nobody's download.
      if (!info.isFile()) continue;
      const { size, mtimeMs } = info;
      const alive = mayLive(owner[1]!, owner[2]!, owner[3]!);
      found.push({ path, bytes: size, made: owner[4]!, busy: alive && Date.now() - mtimeMs < STALLED_MS });
    } catch (error) {
      // It was finished or taken over after the folder was read.
      if (errorCode(error) !== 'ENOENT') throw error;
    }
  }
  return found.sort((a, b) => b.bytes - a.bytes || (a.made < b.made ? -1 : 1));
}

export type Claim = { path: string } | { busy: { bytes: number } };

/**
 * A path to write to, which may already have the first bytes; or the progress of another process with this
 * blob.
 */
export async function claimPartial(blob: string): Promise<Claim> {
  const partials = await partialsOf(blob);
  const busy = partials.find((partial) => partial.busy);
  if (busy !== undefined) return { busy: { bytes: busy.bytes } };
  const path = nameFor(blob, thisProcess());
  if (!(await takeOver(partials, path))) await writeFile(path, '', { flag: 'wx' });
  const first = (await partialsOf(blob)).find((partial) => partial.busy);
  if (first === undefined || first.path === path) return { path };
  await releasePartial(blob, path);
  return { busy: { bytes: first.bytes } };
}

async function takeOver(partials: readonly PartialEntry[], path: string): Promise<boolean> {
  for (const partial of partials) {
    try {
      await rename(partial.path, path);
      return true;
    } catch (error) {
      // Another process was faster.
      if (errorCode(error) !== 'ENOENT') throw error;
    }
  }
  return false;
}

/** Gives up a claim, so that any process, this one too, can resume the file. Deletes an empty file. */
export async function releasePartial(blob: string, path: string): Promise<void> {
  try {
    if ((await stat(path)).size === 0) await rm(path);
    else await rename(path, nameFor(blob, NOBODY));
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}
