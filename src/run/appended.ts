/** A file that this process alone appends to, and which notices when somebody else replaces, removes or cuts it. */
import { closeSync, fstatSync, fsyncSync, lstatSync, readSync } from 'node:fs';
import { openToAppend } from '../base/regular-file';
import { appendWhole } from './atomic';

export class AppendedFile {
  private readonly handle: number;
  private bytes: number;

  /** Creates the file if need be. @throws the system's error, also for a link or for what is no regular file */
  constructor(readonly path: string) {
    this.handle = openToAppend(path);
    this.bytes = fstatSync(this.handle).size;
  }

  private holdsAll(): boolean {
    return fstatSync(this.handle).size === this.bytes;
  }

  /** Whether the path still names this file, with what was written and nothing else. */
  isIntact(): boolean {
    const ours = fstatSync(this.handle, { bigint: true });
    const there = lstatSync(this.path, { bigint: true, throwIfNoEntry: false });
    return there?.ino === ours.ino && there.dev === ours.dev && this.holdsAll();
  }

  /** What was written, even if the path names another file now; null: it was cut or written to by others. */
  content(): Buffer | null {
    if (!this.holdsAll()) return null;
    const content = Buffer.alloc(this.bytes);
    for (let done = 0; done < content.length;) {
      const count = readSync(this.handle, content, done, content.length - done, done);
      if (count === 0) return null;
      done += count;
    }
    return content;
  }

  /** Appends all of `data`, or nothing. */
  append(data: Buffer): void {
    appendWhole(this.handle, data);
    this.bytes += data.length;
  }

  /** Flushes the file to disk. */
  sync(): void {
    fsyncSync(this.handle);
  }

  close(): void {
    closeSync(this.handle);
  }
}
