/**
 * A user's file run in its own thread. There even an endless loop can be ended after the timeout, and an
 * answer that never comes cannot keep the run from ending.
 */
import { join } from 'node:path';
import { inspect } from 'node:util';
import { isMainThread, Worker } from 'node:worker_threads';
import { awakeTimer, late } from '../../base/deadline';
import { AcoerError, badUsage } from '../../base/errors';
import { isRecord } from '../../base/json';
import { exitFromThread } from '../../engine/exit';

/** What every thread is told when it starts. */
export interface ThreadSetup {
  /** The user's name for it, for messages. */
  name: string;
  /** Absolute. */
  path: string;
}

/** `id` null: a message that is not answered. */
export interface ToThread<Message> {
  id: number | null;
  message: Message;
}

/** `value` of `ready` is what the thread's user needs before the first call. */
export type FromThread =
  | { type: 'ready'; value: unknown }
  | { type: 'unloadable'; message: string }
  | { type: 'running' | 'waiting'; id: number }
  | { type: 'done'; id: number; value: unknown }
  | { type: 'failed'; id: number; message: string };

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
  endTimer?: () => void;
}

type First = Extract<FromThread, { type: 'ready' | 'unloadable' }>;
type Answer = Exclude<FromThread, First>;

/** The file shares the thread's port with us and may post anything. */
const isFirst = (message: unknown): message is First =>
  isRecord(message) && (message['type'] === 'ready' || message['type'] === 'unloadable');

const isAnswer = (message: unknown): message is Answer =>
  isRecord(message) && ['running', 'waiting', 'done', 'failed'].includes(message['type'] as string);

function foreign(message: unknown): string {
  const shown = inspect(message, { depth: 1, breakLength: Infinity }).slice(0, 60);
  return `it posted ${shown} to parentPort, over which acoer talks to it; remove that call of postMessage`;
}

/** A thread that can be ended ends within milliseconds. */
const END_MS = 2_000;

/**
 * However a process ends, Node waits for every thread: for one in a system call, say waiting for a child
 * process, as long as the call takes. This makes the process end without waiting.
 */
function endProcessWithout(worker: Worker): void {
  const endNow = (code: number): void => {
    try {
      exitFromThread(code);
    } catch {
      // Without the addon this is the only way, and the exit code is lost.
      process.kill(process.pid, 'SIGKILL');
    }
  };
  // In a thread of another program, the process is not ours to end.
  if (isMainThread) process.once('exit', endNow);
  worker.once('exit', () => process.off('exit', endNow));
}

/** Ends the thread. One that has not ended within 2 s is left behind and holds up nobody. */
async function endThread(worker: Worker): Promise<void> {
  const left = await new Promise<boolean>((resolve) => {
    const cancel = awakeTimer(END_MS, () => resolve(true));
    void worker.terminate().then(() => {
      cancel();
      resolve(false);
    });
  });
  if (!left) return;
  worker.unref();
  // Node's event loop also waits for the thread's output to end.
  for (const output of [worker.stdout, worker.stderr]) output.push(null);
  endProcessWithout(worker);
}

/** A loaded module that answers calls, each within the time limit. `Message` is what it can be told. */
export class ModuleThread<Message> {
  private readonly pending = new Map<number, Pending>();
  private nextId = 0;
  /** The call whose code is running now. */
  private running: number | null = null;
  private ended: Error | null = null;
  /** Cancels the timer of a thread that begins no call. */
  private endSilence: (() => void) | null = null;

  constructor(
    private readonly worker: Worker,
    private readonly timeoutMs: number,
  ) {
    worker.on('message', (message: unknown) => this.receive(message));
    worker.on('error', (error) => this.end(error));
    worker.on('exit', () => this.end(new Error('its thread ended')));
    worker.unref();
  }

  /** @param what it is, in messages: the reward, the judge */
  async close(what: string): Promise<void> {
    this.end(new Error(`the ${what} is closed`));
    await endThread(this.worker);
  }

  post(message: Message, id: number | null = null): void {
    this.worker.postMessage({ id, message } satisfies ToThread<Message>);
  }

  call(message: Message): Promise<unknown> {
    if (this.ended !== null) return Promise.reject(this.ended);
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      // A pending call keeps the process alive; an idle thread does not.
      if (this.pending.size === 0) this.worker.ref();
      this.pending.set(id, { resolve, reject });
      try {
        this.post(message, id);
      } catch (error) {
        // Something in the message cannot be copied to another thread.
        this.settle(id)?.reject(error as Error);
      }
      this.watchSilence();
    });
  }

  private receive(message: unknown): void {
    if (this.ended !== null) return;
    const call = isAnswer(message) ? this.pending.get(message.id) : undefined;
    if (call === undefined) this.stop(new Error(foreign(message)));
    else this.take(message as Answer, call);
  }

  /**
   * A call has its own timer from when its code begins. Before that, code that an earlier call left behind (a timer
   * of the module's that loops) may block the thread.
   */
  private watchSilence(): void {
    const timed = [...this.pending.values()].some((call) => call.endTimer !== undefined);
    if (timed || this.pending.size === 0) {
      this.endSilence?.();
      this.endSilence = null;
    } else this.endSilence ??= awakeTimer(this.timeoutMs, () => this.expire([...this.pending.keys()][0]!));
  }

  private take(message: Answer, call: Pending): void {
    switch (message.type) {
      case 'running':
        this.running = message.id;
        call.endTimer = awakeTimer(this.timeoutMs, () => this.expire(message.id));
        this.watchSilence();
        break;
      case 'waiting':
        this.running = null;
        break;
      case 'done':
        this.settle(message.id)?.resolve(message.value);
        break;
      case 'failed':
        this.settle(message.id)?.reject(new Error(message.message));
        break;
    }
  }

  private settle(id: number): Pending | undefined {
    const call = this.pending.get(id);
    call?.endTimer?.();
    this.pending.delete(id);
    if (this.pending.size === 0) this.worker.unref();
    this.watchSilence();
    return call;
  }

  /** A call whose code never returns blocks all the others, so it is the one to name. */
  private expire(id: number): void {
    const error = late(this.timeoutMs);
    this.settle(this.running ?? id)?.reject(error);
    this.stop(error);
  }

  private stop(error: Error): void {
    this.end(error);
    void endThread(this.worker);
  }

  private end(error: Error): void {
    this.ended ??= error;
    for (const id of [...this.pending.keys()]) this.settle(id)?.reject(error);
  }
}

/** A module may import a lot; the user's timeout is for calls, not for loading. */
const LOAD_TIMEOUT_MS = 60_000;

export interface ThreadOptions {
  /** For each call. */
  timeoutMs: number;
  loadTimeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** Resolves with the thread's report that it has loaded the module, or why it cannot. */
function firstMessage(worker: Worker, timeoutMs: number, signal?: AbortSignal): Promise<First> {
  return new Promise((resolve) => {
    const end = (message: First) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      resolve(message);
    };
    const unloadable = (message: string) => end({ type: 'unloadable', message });
    const onAbort = () => unloadable('loading it was interrupted');
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted === true) queueMicrotask(onAbort);
    const timer = setTimeout(() => unloadable(`it did not load within ${timeoutMs} ms`), timeoutMs);
    worker.on('message', (message: unknown) => {
      if (isFirst(message)) end(message);
      else unloadable(foreign(message));
    });
    worker.once('error', (error) => unloadable(error.message));
    worker.once('exit', () => unloadable('its thread ended while loading it'));
  });
}

/**
 * Loads `setup.path`, a JavaScript module, CommonJS or ES, in a thread of the compiled file `thread`. Its
 * standard output goes to standard error.
 *
 * @param what it is, in messages: the reward, the judge
 * @throws BAD_CONFIG when it cannot be loaded, or its thread refuses it; INTERRUPTED when `signal` aborts
 */
export async function openModuleThread<Message>(
  what: string,
  thread: string,
  setup: ThreadSetup,
  { timeoutMs, loadTimeoutMs = LOAD_TIMEOUT_MS, signal }: ThreadOptions,
): Promise<{ thread: ModuleThread<Message>; first: unknown }> {
  const worker = new Worker(join(__dirname, thread), { workerData: setup, stdout: true });
  worker.stdout.pipe(process.stderr, { end: false });
  const first = await firstMessage(worker, loadTimeoutMs, signal);
  if (first.type === 'ready') return { thread: new ModuleThread(worker, timeoutMs), first: first.value };
  await endThread(worker);
  if (signal?.aborted === true)
    throw new AcoerError('INTERRUPTED', `Interrupted while the ${what} was loaded.`);
  throw badUsage(`Cannot use the ${what} "${setup.name}" in ${setup.path}: ${first.message}`);
}
