/**
 * Parquet files, read by a thread in windows of rows, so that only one window at a time costs memory and
 * event-loop time.
 */
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { awakeTimer } from '../base/deadline';
import { badInput, errorMessage } from '../base/errors';

/** The file for the thread to read. */
export interface ParquetFile {
  path: string;
  /** The file is gzipped. */
  zipped: boolean;
}

/** Opens a file, or asks for the next window of the open one; `columns` counts only the first time. */
export type ToParquet = { type: 'open'; file: ParquetFile } | { type: 'next'; columns: string[] };

export type FromParquet =
  | { type: 'columns'; names: string[] }
  | { type: 'rows'; rows: Record<string, unknown>[] }
  | { type: 'end' }
  | { type: 'failed'; message: string };

/** A thread that is silent longer than this, or needs more heap for one window, is reading a bad file. */
export const PARQUET_LIMITS = { waitMs: 60_000, heapMb: 2048 };

/** The compiled thread, whether this file is compiled or not. */
const THREAD = join(__dirname, '..', '..', 'dist', 'parquet', 'worker.js');

/** How long a thread that has read its file well waits for another: starting one takes longer than a small file. */
const IDLE_MS = 1000;

class ParquetThread {
  /** One that waits for a file. */
  private static idle: ParquetThread | null = null;

  private readonly worker: Worker;
  private readonly said: FromParquet[] = [];
  private heard: () => void = () => undefined;
  private endIdling: () => void = () => undefined;

  static take(): ParquetThread {
    const { idle } = ParquetThread;
    if (idle === null) return new ParquetThread();
    idle.endIdling();
    // What it has said since is that it failed.
    return idle.said.length === 0 ? idle : new ParquetThread();
  }

  private constructor() {
    this.worker = new Worker(THREAD, {
      resourceLimits: { maxOldGenerationSizeMb: PARQUET_LIMITS.heapMb },
    });
    const hear = (message: FromParquet) => {
      this.said.push(message);
      this.heard();
    };
    this.worker.on('message', hear);
    this.worker.on('error', (error) => hear({ type: 'failed', message: errorMessage(error) }));
    this.worker.on('exit', () => hear({ type: 'failed', message: 'its reader thread exited' }));
  }

  send(message: ToParquet): void {
    this.worker.postMessage(message);
  }

  /** The next message of the thread. */
  async next(): Promise<FromParquet> {
    const { waitMs } = PARQUET_LIMITS;
    if (this.said.length === 0) {
      await new Promise<void>((resolve) => {
        const cancel = awakeTimer(waitMs, resolve);
        this.heard = () => {
          cancel();
          resolve();
        };
      });
    }
    return this.said.shift() ?? { type: 'failed', message: `no rows arrived for ${waitMs / 1000} s` };
  }

  /** @param reusable it has read its file to the end */
  leave(reusable: boolean): void {
    if (!reusable || ParquetThread.idle !== null) return void this.worker.terminate();
    ParquetThread.idle = this;
    this.worker.unref();
    const timer = setTimeout(() => {
      this.endIdling();
      void this.worker.terminate();
    }, IDLE_MS).unref();
    this.endIdling = () => {
      clearTimeout(timer);
      ParquetThread.idle = null;
      this.worker.ref();
    };
  }
}

/**
 * The rows of a file in order.
 * @param label name of the file in messages
 * @param choose picks the columns to read from those in the file
 * @throws BAD_INPUT for an invalid Parquet file, and whatever `choose` throws
 */
export async function* parquetRows(
  label: string,
  file: ParquetFile,
  choose: (columns: readonly string[]) => readonly string[],
): AsyncGenerator<Record<string, unknown>, void> {
  const thread = ParquetThread.take();
  const next = async (): Promise<FromParquet> => {
    const answer = await thread.next();
    if (answer.type !== 'failed') return answer;
    throw badInput(`Cannot read ${label} as Parquet: ${answer.message}`);
  };
  let ended = false;
  try {
    thread.send({ type: 'open', file });
    const opened = await next();
    const columns = opened.type === 'columns' ? [...choose(opened.names)] : [];
    while (!ended) {
      thread.send({ type: 'next', columns });
      const answer = await next();
      if (answer.type === 'rows') yield* answer.rows;
      ended = answer.type === 'end';
    }
  } finally {
    thread.leave(ended);
  }
}
