/**
 * Reads files: the one place in `src` that does (a rule of ESLint). Only regular files, opened without waiting: a
 * pipe would wait for its writer, a device may never end. Errors say what is wrong; callers name the file.
 */
import { createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';

/** Without O_NONBLOCK, opening a pipe would wait for its other end. */
const FLAGS_OF = {
  'to read': constants.O_RDONLY | constants.O_NONBLOCK,
  'to write': constants.O_RDWR | constants.O_NONBLOCK,
  /** To read; a link is refused with ELOOP, since it may lead anywhere. */
  'not through a link': constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW,
};
const PIECE_BYTES = 1 << 20;

/** What V8 can hold as one string; the limit for files that grow with a run. */
export const MAX_TEXT_BYTES = 2 ** 29 - 32;

/** The code of an error that says that a pipe, a socket or a device has the file's name. */
export const NOT_REGULAR = 'NOT_REGULAR';

function refuseSpecial(info: Stats): void {
  if (info.isFile()) return;
  if (info.isDirectory()) throw Object.assign(new Error('it is a folder'), { code: 'EISDIR' });
  const kind = info.isFIFO() ? 'a pipe' : info.isSocket() ? 'a socket' : 'a device';
  throw Object.assign(new Error(`it is ${kind}, not a regular file`), { code: NOT_REGULAR });
}

/** The size that the file system reports is checked first, and again what is read: /proc reports 0. */
class Pieces {
  private readonly pieces: Buffer[] = [];
  private bytes = 0;

  constructor(
    reported: number,
    private readonly limit: number,
  ) {
    this.check(reported);
  }

  private check(bytes: number): void {
    if (bytes > this.limit) throw new Error(`it has more than the allowed ${this.limit} bytes`);
  }

  add(piece: Buffer): void {
    this.pieces.push(piece);
    this.check((this.bytes += piece.length));
  }

  whole(): Buffer {
    return this.pieces.length === 1 ? this.pieces[0]! : Buffer.concat(this.pieces);
  }
}

/** Opens a regular file, which must exist, and returns it with its size; the caller closes it. */
export async function openRegularFile(
  path: string,
  use: keyof typeof FLAGS_OF = 'to read',
): Promise<{ file: FileHandle; bytes: number }> {
  const file = await open(path, FLAGS_OF[use]);
  try {
    const info = await file.stat();
    refuseSpecial(info);
    return { file, bytes: info.size };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** SHA-256 in hex of an open file, which is then closed. A piece holds up the event loop for a millisecond or two. */
export async function sha256Of(file: FileHandle, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  const pieces = file.createReadStream({ highWaterMark: PIECE_BYTES, signal });
  for await (const piece of pieces) hash.update(piece as Buffer);
  return hash.digest('hex');
}

/** For a file that other code opens by its name. */
export async function checkRegularFile(path: string): Promise<void> {
  await (await openRegularFile(path)).file.close();
}

/** The whole content of a regular file of at most `limit` bytes. */
export async function readRegularFile(path: string, limit: number): Promise<Buffer> {
  const { file, bytes } = await openRegularFile(path);
  try {
    const pieces = new Pieces(bytes, limit);
    for (;;) {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(PIECE_BYTES), 0, PIECE_BYTES, null);
      if (bytesRead === 0) return pieces.whole();
      pieces.add(buffer.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
  }
}

function openCheckedSync(path: string, flags: number): number {
  const handle = openSync(path, flags, 0o666);
  try {
    refuseSpecial(fstatSync(handle));
    return handle;
  } catch (error) {
    closeSync(handle);
    throw error;
  }
}

/** Opens a regular file for reading; the caller closes it. */
export const openRegularFileSync = (path: string): number => openCheckedSync(path, FLAGS_OF['to read']);

/** Opens a regular file, not a link, to read and to append to; creates it if need be. The caller closes it. */
export function openToAppend(path: string): number {
  const { O_RDWR, O_APPEND, O_CREAT, O_NONBLOCK, O_NOFOLLOW } = constants;
  return openCheckedSync(path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW);
}

/** The same as `readRegularFile` without a turn of the event loop, for small files. */
export function readRegularFileSync(path: string, limit: number): Buffer {
  const handle = openRegularFileSync(path);
  try {
    const info = fstatSync(handle);
    const pieces = new Pieces(info.size, limit);
    for (;;) {
      const buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, limit + 1));
      const bytesRead = readSync(handle, buffer);
      if (bytesRead === 0) return pieces.whole();
      pieces.add(buffer.subarray(0, bytesRead));
    }
  } finally {
    closeSync(handle);
  }
}

/** A small text, also one of the system's under /proc and /sys. */
export const readTextSync = (path: string, limit = 1 << 16): string =>
  readRegularFileSync(path, limit).toString('utf8');
