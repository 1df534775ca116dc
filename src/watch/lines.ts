/** Follows a file of lines that another process appends to, rewrites or replaces. */
import type { FileHandle } from 'node:fs/promises';
import { basename } from 'node:path';
import { badInput, errorCode } from '../base/errors';
import { Pace } from '../base/pace';
import { openRegularFile } from '../base/regular-file';

const CHUNK_BYTES = 256 * 1024;
/** A line of metrics has about 2.5 KB. Longer ones are passed over. */
const LONGEST_LINE_BYTES = 1024 * 1024;
/** A run of 100,000 steps has about 250 MB. */
const MOST_BYTES = 512 * 1024 * 1024;
/** Bytes before the place read up to, by which a file that was replaced is recognised. */
const TAIL_BYTES = 64;
const NEWLINE = 10;

export interface LineReader {
  /** The file's beginning is read again: it was replaced or cut, so every line may differ. */
  restart(): void;
  /** @param text null: the line is too long to be one of metrics; @param number from 1 */
  line(text: string | null, number: number): void;
}

/** Opens a regular file for reading; null: there is none. A link is refused, since it may lead anywhere. */
export async function openRegular(path: string): Promise<FileHandle | null> {
  try {
    return (await openRegularFile(path, 'not through a link')).file;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null;
    throw error;
  }
}

const tooLarge = (path: string) =>
  badInput(`${basename(path)} has more than 512 MB; the page does not read it.`);

export class FollowedLines {
  private inode = 0;
  private modifiedMs = 0;
  private sizeBytes = 0;
  /** End of the last whole line. */
  private offset = 0;
  private number = 0;
  private tail = Buffer.alloc(0);
  /** In a line that is too long, up to its end. */
  private skipping = false;

  constructor(
    readonly path: string,
    private readonly reader: LineReader,
  ) {}

  /**
   * Reads what has been appended, and returns whether anything changed.
   * @throws BAD_INPUT if the file is too large to be one of metrics
   */
  async poll(): Promise<boolean> {
    const handle = await openRegular(this.path);
    if (handle === null) return this.restart();
    try {
      const { ino, size, mtimeMs } = await handle.stat();
      if (ino === this.inode && size === this.sizeBytes && mtimeMs === this.modifiedMs) return false;
      if (size > MOST_BYTES) throw tooLarge(this.path);
      const same = ino === this.inode && size >= this.offset && (await this.tailMatches(handle));
      const restarted = !same && this.restart();
      Object.assign(this, { inode: ino, sizeBytes: size, modifiedMs: mtimeMs });
      return (await this.read(handle, size)) || restarted;
    } finally {
      await handle.close();
    }
  }

  /** @returns whether lines had been read */
  private restart(): boolean {
    const had = this.offset > 0 || this.skipping;
    Object.assign(this, { inode: 0, sizeBytes: 0, modifiedMs: 0, offset: 0, number: 0 });
    this.tail = Buffer.alloc(0);
    this.skipping = false;
    if (had) this.reader.restart();
    return had;
  }

  private async tailMatches(handle: FileHandle): Promise<boolean> {
    if (this.tail.length === 0) return true;
    const found = Buffer.alloc(this.tail.length);
    const { bytesRead } = await handle.read(found, 0, found.length, this.offset - found.length);
    return bytesRead === found.length && found.equals(this.tail);
  }

  /** @returns whether there was a whole line */
  private async read(handle: FileHandle, end: number): Promise<boolean> {
    const [pace, before] = [new Pace(), this.offset];
    let chunk = Buffer.alloc(CHUNK_BYTES);
    while (this.offset < end) {
      const most = Math.min(chunk.length, end - this.offset);
      const { bytesRead } = await handle.read(chunk, 0, most, this.offset);
      const whole = chunk.subarray(0, bytesRead).lastIndexOf(NEWLINE) + 1;
      if (whole > 0) {
        await this.lines(chunk.subarray(0, whole), pace);
        this.advance(chunk.subarray(0, whole));
      } else if (bytesRead === LONGEST_LINE_BYTES) {
        this.skipping = true;
        this.advance(chunk.subarray(0, bytesRead));
      } else if (bytesRead < chunk.length) {
        // The last line is still being written.
        break;
      } else {
        chunk = Buffer.alloc(LONGEST_LINE_BYTES);
      }
    }
    return this.offset > before;
  }

  private advance(piece: Buffer): void {
    this.offset += piece.length;
    this.tail = Buffer.from(Buffer.concat([this.tail, piece.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES));
  }

  private async lines(piece: Buffer, pace: Pace): Promise<void> {
    for (let from = 0; from < piece.length;) {
      const to = piece.indexOf(NEWLINE, from);
      this.number++;
      if (this.skipping) this.reader.line(null, this.number);
      else if (to > from) this.reader.line(piece.toString('utf8', from, to), this.number);
      this.skipping = false;
      from = to + 1;
      await pace.turn();
    }
  }
}
