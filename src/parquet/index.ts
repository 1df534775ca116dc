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

/** Requests the next window; `columns` counts only the first time. */
export interface ToParquet {
  columns: string[];
}

export type FromParquet =
  | { type: 'columns'; names: string[] }
  | { type: 'rows'; rows: Record<string, unknown>[] }
  | { type: 'end' }
  | { type: 'failed'; message: string };

/** A thread that is silent longer than this, or needs more heap for one window, is reading a bad file. */
export const PARQUET_LIMITS = { waitMs: 60_000, heapMb: 2048 };

/** The compiled thread, whether this file is compiled or not. */
const THREAD = join(__dirname, '..', '..', 'dist', 'parquet', 'worker.js');

class ParquetThread implements Disposable {
  private readonly worker: Worker;
  private readonly said: FromParquet[] = [];
  private heard: () => void = () => undefined;

  constructor(file: ParquetFile) {
    this.worker = new Worker(THREAD, {
      workerData: file,
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

  [Symbol.dispose](): void {
    void this.worker.terminate();
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
  using thread = new ParquetThread(file);
  const next = async (): Promise<FromParquet> => {
    const answer = await thread.next();
    if (answer.type !== 'failed') return answer;
    throw badInput(`Cannot read ${label} as Parquet: ${answer.message}`);
  };
  let answer = await next();
  const columns = answer.type === 'columns' ? [...choose(answer.names)] : [];
  while (answer.type !== 'end') {
    thread.send({ columns });
    answer = await next();
    if (answer.type === 'rows') yield* answer.rows;
  }
}
