/** The event file of a run: replaced when the run goes back, appended to by each step. */
import { closeSync, existsSync, fsyncSync, openSync, readdirSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { appendWhole, writeFileAtomic } from '../atomic';
import { eventTime, fileVersionEvent, startEvent } from './events';
import { frame, unframe } from './records';

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
  for (const event of unframe(readFileSync(path))) {
    const { wallTime, step } = eventTime(event);
    stored.begun ??= wallTime;
    if (step > 0) stored.steps.set(step, { wallTime, event });
  }
  return stored;
}

export class EventFile {
  private readonly handle: number;

  /**
   * Replaces the run's event file by one with `events`, under a later name: a TensorBoard that has the old one
   * open would never look at another file of the same name. The old one is emptied and stays, because
   * TensorBoard's reader in Python looks for no other file once the one it reads is gone.
   * @param staged where the file is written first, on the same file system but outside of what TensorBoard reads
   * @param begun when the run began, in seconds since 1970
   */
  constructor(folder: string, staged: string, begun: number, events: readonly Buffer[]) {
    const old = eventFiles(folder);
    const last = Math.max(0, ...old.map((path) => Number(/(\d+)\.acoer$/.exec(path)![1])));
    const seconds = Math.max(Math.floor(Date.now() / 1000), last + 1);
    const path = join(folder, `events.out.tfevents.${seconds}.acoer`);
    const all = [fileVersionEvent(begun), startEvent(begun), ...events];
    writeFileAtomic(path, Buffer.concat(all.map(frame)), staged);
    this.handle = openSync(path, 'a');
    for (const replaced of old) truncateSync(replaced);
  }

  append(event: Buffer): void {
    appendWhole(this.handle, frame(event));
  }

  sync(): void {
    fsyncSync(this.handle);
  }

  close(): void {
    closeSync(this.handle);
  }
}
