/** Starts the thread that notices when the run's own thread is blocked and cannot watch itself. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Hang } from './dump';

export interface SentinelSetup {
  buffer: SharedArrayBuffer;
  tickMs: number;
  /** The run's directory; null: this process has none, and writes no dump. */
  directory: string | null;
  /** The command that resumes the run. */
  resume: string;
  /** End the process after the dump, because a blocked thread cannot be ended in any other way. */
  kill: boolean;
}

/** Sent to the run's thread, which reads it once it is free again. */
export interface SentinelMessage {
  hang: Hang;
  /** null: the dump could not be written. */
  path: string | null;
}

/** Sent to the watching thread. */
export interface AboutRun {
  engine: unknown;
}

const THREAD = join(__dirname, 'thread.js');

/** null when running from the TypeScript sources, because a thread needs compiled JavaScript. */
export function startSentinel(
  setup: SentinelSetup,
  onBlocked: (message: SentinelMessage) => void,
  onLost: (error: Error) => void,
): Worker | null {
  if (!existsSync(THREAD)) return null;
  // Without execArgv: a preloaded module may block this thread as it blocks the other.
  const worker = new Worker(THREAD, { workerData: setup, execArgv: [] });
  worker.on('message', onBlocked);
  worker.on('error', onLost);
  worker.unref();
  return worker;
}
