/**
 * Partial downloads. A partial file lies beside its blob as `<checksum>.<owner>.incomplete`, where the owner is a
 * process: its id and its start time. That name is the only lock there is. While the owner lives, others wait for it;
 * when it is dead, one of them takes the file over by renaming it and goes on where it ends. Of two that start
 * together the later one steps back. Should both download all the same, nothing breaks: each has a file of its own, and
 * the same bytes get the blob's name twice.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../errors';

/** A live owner whose file has not grown for so long is not waited for. */
const STALLED_MS = 60_000;
const SUFFIX = '.incomplete';

/** The start of a process in clock ticks since boot (proc(5), field 22): ids are used again, this pair is not. */
function startOf(pid: number): string | null {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command, in brackets, may hold blanks.
    return line.slice(line.lastIndexOf(')') + 2).split(' ')[19] ?? null;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ESRCH') return null;
    throw error;
  }
}

const nameFor = (blob: string, owner: string): string =>
  `${blob}.${owner}-${Date.now()}${randomBytes(2).toString('hex')}${SUFFIX}`;
/** No process has the id 0: whoever comes next takes the file over. */
const NOBODY = '0-0';

interface PartialEntry {
  path: string;
  bytes: number;
  /** What ends its name: sorts by the time it was made. */
  made: string;
  /** Its owner lives and it grew a short while ago. */
  busy: boolean;
}

async function partialsOf(blob: string): Promise<PartialEntry[]> {
  const pattern = /^\.(\d+)-(\d+)-([0-9a-f]+)\.incomplete$/;
  const found: PartialEntry[] = [];
  for (const name of await readdir(dirname(blob))) {
    if (!name.startsWith(basename(blob))) continue;
    const owner = pattern.exec(name.slice(basename(blob).length));
    if (owner === null) continue;
    const path = join(dirname(blob), name);
    try {
      const { size, mtimeMs } = await stat(path);
      const alive = startOf(Number(owner[1])) === owner[2];
      found.push({ path, bytes: size, made: owner[3]!, busy: alive && Date.now() - mtimeMs < STALLED_MS });
    } catch (error) {
      // Finished or taken over since the folder was read.
      if (errorCode(error) !== 'ENOENT') throw error;
    }
  }
  return found.sort((a, b) => b.bytes - a.bytes || (a.made < b.made ? -1 : 1));
}

export type Claim = { path: string } | { busy: { bytes: number } };

/** A path to write to, which may hold the first bytes already; or how far another process is with this blob. */
export async function claimPartial(blob: string): Promise<Claim> {
  const partials = await partialsOf(blob);
  const busy = partials.find((partial) => partial.busy);
  if (busy !== undefined) return { busy: { bytes: busy.bytes } };
  const path = nameFor(blob, `${process.pid}-${startOf(process.pid)}`);
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

/** Gives up a claim, so that anyone, this process included, can go on with the file at once; an empty file goes. */
export async function releasePartial(blob: string, path: string): Promise<void> {
  try {
    if ((await stat(path)).size === 0) await rm(path);
    else await rename(path, nameFor(blob, NOBODY));
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}
