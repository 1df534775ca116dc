/** The event file of a run: replaced when the run goes back, appended to by each step. */
import { existsSync, lstatSync, readdirSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { AppendedFile, writeFileAtomic, isFull } from '../atomic';
import { readRunFile } from '../read-file';
import { eventTime, fileVersionEvent, startEvent } from './events';
import { frame, unframe } from './protobuf';
import { maximum } from '../../base/statistics';

/** What fits into one buffer. */
const MAX_EVENT_BYTES = 2 ** 32 - 1;

/** TensorBoard reads whatever has `tfevents` in its name, in the order of the names. */
const NAME = /^events\.out\.tfevents\.(\d{10,})\.acoer$/;

/** The event files in `folder`; all but the last have been emptied. */
function eventFiles(folder: string): string[] {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => NAME.test(name)) : [];
  return names.sort().map((name) => join(folder, name));
}

export interface StoredEvent {
  /** Seconds since 1970. */
  wallTime: number;
  event: Buffer;
}

/** What the event file in `folder` holds, up to a record that a crash cut off. */
export interface StoredEvents {
  /** When the run began, in seconds since 1970; null: there is no file. */
  begun: number | null;
  /** By step; events of step 0 (settings, the end of a session) are left out. */
  steps: Map<number, StoredEvent>;
}

export function readEvents(folder: string): StoredEvents {
  const path = eventFiles(folder).at(-1);
  const stored: StoredEvents = { begun: null, steps: new Map() };
  if (path === undefined) return stored;
  for (const event of unframe(readRunFile(path, MAX_EVENT_BYTES))) {
    const { wallTime, step } = eventTime(event);
    stored.begun ??= wallTime;
    if (step > 0) stored.steps.set(step, { wallTime, event });
  }
  return stored;
}

export class EventFile {
  private readonly file: AppendedFile;
  private readonly unwritten: Buffer[] = [];

  /**
   * Replaces the run's event file by one with `events`, under a later name: a TensorBoard that has the old one
   * open would never look at another file of the same name. The old one is emptied and stays, because
   * TensorBoard's reader in Python looks for no other file once the one it reads is gone.
   * @param staged where the file is written first, on the same file system but outside of what TensorBoard reads
   * @param begun when the run began, in seconds since 1970
   */
  constructor(folder: string, staged: string, begun: number, events: readonly Buffer[]) {
    const old = eventFiles(folder);
    const last = Math.max(0, maximum(old.map((path) => Number(/(\d+)\.acoer$/.exec(path)![1]))));
    const seconds = Math.max(Math.floor(Date.now() / 1000), last + 1);
    const path = join(folder, `events.out.tfevents.${seconds}.acoer`);
    const all = [fileVersionEvent(begun), startEvent(begun), ...events];
    writeFileAtomic(path, Buffer.concat(all.map(frame)), staged);
    this.file = new AppendedFile(path);
    // Emptied are this run's own files only, nothing that a link leads to.
    for (const replaced of old) if (lstatSync(replaced).isFile()) truncateSync(replaced);
  }

  /** On a full disk the event is kept for the next attempt; what else fails is thrown. */
  append(event: Buffer): void {
    this.unwritten.push(frame(event));
    try {
      this.write();
    } catch (error) {
      if (!isFull(error)) throw error;
    }
  }

  private write(): void {
    if (!this.file.isIntact()) throw new Error(`${this.file.path} was replaced, removed or changed`);
    for (; this.unwritten.length > 0; this.unwritten.shift()) this.file.append(this.unwritten[0]!);
  }

  /** Flushes the events so far to disk. */
  sync(): void {
    try {
      this.write();
      this.file.sync();
    } catch (error) {
      if (!isFull(error)) throw error;
    }
  }

  /** @throws Error on a full disk, which may lack the last events */
  close(): void {
    try {
      this.write();
    } finally {
      this.file.close();
    }
  }
}
