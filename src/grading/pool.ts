/**
 * Verdicts in bulk: a pool of child processes with a wall-clock limit on top of the counted budgets of
 * `verify`. A process that does not answer in time is killed and replaced; the pair at fault gets `timeout`,
 * the others get their verdicts.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { AcoerError } from '../base/errors';
import type { Grading, Verdict } from '../base/types';
import type { PresetName } from '#verify/options';

export interface GradingItem {
  gold: string;
  pred: string;
  /** Under math_verify's option names; the caller checks them (`optionsFromConfig`). */
  config?: unknown;
  /**
   * `boxed`: the paper's protocol; `last-box`: the authors' code. Both are `verifyCompletion` and take no
   * `config`.
   */
  preset?: PresetName | 'boxed' | 'last-box';
  /** What the data set says about judging its answers. */
  grading?: Grading;
  /** For the presets of `verifyAnswer`: whether thinking that never closes is searched. Default `none`. */
  openThinking?: 'none' | 'searched';
}

export interface Batch {
  id: number;
  items: readonly GradingItem[];
}

export interface BatchResult {
  id: number;
  verdicts: Verdict[];
}

export interface PoolOptions {
  /** Default: one per core. */
  workers?: number;
  /** A batch that takes longer is split into single pairs; a single pair gets `timeout`. Default 1000 ms. */
  wallMs?: number;
  /** The compiled worker; only tests set another. */
  workerFile?: string;
}

interface Job extends Batch {
  resolve: (verdicts: Verdict[]) => void;
  reject: (error: Error) => void;
}

interface Worker {
  process: ChildProcess;
  ready: boolean;
  job: Job | null;
  timer: NodeJS.Timeout | null;
}

const TIMEOUT: Verdict = { correct: false, status: 'timeout', extracted: null };
/** After this many processes in a row have died before they were ready, give up. */
const MAX_FAILED_STARTS = 3;

export class VerifierPool {
  private readonly workers: Worker[] = [];
  private readonly queue: Job[] = [];
  private readonly size: number;
  private readonly wallMs: number;
  private readonly workerFile: string;
  private nextId = 0;
  private failedStarts = 0;
  private closed = false;

  constructor(options: PoolOptions = {}) {
    this.size = options.workers ?? availableParallelism();
    this.wallMs = options.wallMs ?? 1_000;
    this.workerFile = options.workerFile ?? join(__dirname, 'worker.js');
  }

  get concurrency(): number {
    return this.size;
  }

  /**
   * One verdict per item, in order.
   * @throws LOAD_FAILED when no process starts; then there are no verdicts at all
   */
  async verify(items: readonly GradingItem[]): Promise<Verdict[]> {
    if (items.length === 0) return [];
    return new Promise((resolve, reject) => {
      this.queue.push({ id: this.nextId++, items, resolve, reject });
      this.dispatch();
    });
  }

  /** Kills the processes, which keep the program alive until then. Work still queued gets `timeout`. */
  close(): void {
    this.closed = true;
    for (const worker of this.workers.splice(0)) {
      if (worker.timer !== null) clearTimeout(worker.timer);
      worker.process.removeAllListeners();
      worker.process.kill('SIGKILL');
      worker.job?.resolve(worker.job.items.map(() => TIMEOUT));
    }
    for (const job of this.queue.splice(0)) job.resolve(job.items.map(() => TIMEOUT));
  }

  [Symbol.dispose](): void {
    this.close();
  }

  private abandonQueue(): void {
    const error = new AcoerError(
      'LOAD_FAILED',
      `The verifier's processes do not start (${MAX_FAILED_STARTS} exited at once); to see why, run: node ${this.workerFile}`,
    );
    for (const job of this.queue.splice(0)) job.reject(error);
  }

  private dispatch(): void {
    while (!this.closed && this.queue.length > 0) {
      const idle = this.workers.find((worker) => worker.ready && worker.job === null);
      if (idle === undefined) {
        // Processes that are still starting take from the queue when they are ready.
        if (this.workers.length < this.size) this.start();
        else return;
        continue;
      }
      this.send(idle, this.queue.shift()!);
    }
  }

  private start(): void {
    if (this.failedStarts >= MAX_FAILED_STARTS) return this.abandonQueue();
    const child = fork(this.workerFile, {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      execArgv: ['--max-old-space-size=512'],
    });
    const worker: Worker = { process: child, ready: false, job: null, timer: null };
    this.workers.push(worker);
    child.on('message', (message: 'ready' | BatchResult) => this.receive(worker, message));
    child.on('error', () => this.lost(worker));
    child.on('exit', () => this.lost(worker));
  }

  private send(worker: Worker, job: Job): void {
    worker.job = job;
    worker.timer = setTimeout(() => this.lost(worker), this.wallMs);
    worker.process.send({ id: job.id, items: job.items }, (error) => {
      if (error !== null) this.lost(worker);
    });
  }

  private receive(worker: Worker, message: 'ready' | BatchResult): void {
    if (message === 'ready') {
      worker.ready = true;
      this.failedStarts = 0;
    } else if (worker.job?.id === message.id) {
      if (worker.timer !== null) clearTimeout(worker.timer);
      const { job } = worker;
      [worker.job, worker.timer] = [null, null];
      job.resolve(message.verdicts);
    }
    this.dispatch();
  }

  /** Kills a process that died or is too slow, and retries its pairs one by one to find the one at fault. */
  private lost(worker: Worker): void {
    const at = this.workers.indexOf(worker);
    if (at < 0) return;
    this.workers.splice(at, 1);
    if (worker.timer !== null) clearTimeout(worker.timer);
    worker.process.removeAllListeners();
    // Ignore late errors of a killed process.
    worker.process.on('error', () => undefined);
    worker.process.kill('SIGKILL');
    if (!worker.ready) this.failedStarts++;
    const { job } = worker;
    if (job !== null && job.items.length === 1) job.resolve([TIMEOUT]);
    else if (job !== null) {
      Promise.all(job.items.map((item) => this.verify([item]))).then(
        (parts) => job.resolve(parts.flat()),
        job.reject,
      );
    }
    this.dispatch();
  }
}
