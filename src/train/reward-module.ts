/**
 * A reward from a user's file, run in its own thread. There even an endless loop can be ended after the
 * timeout, and an answer that never comes cannot keep the run from ending.
 */
import { join } from 'node:path';
import { inspect } from 'node:util';
import { Worker } from 'node:worker_threads';
import { awakeTimer } from '../deadline';
import { AcoerError } from '../errors';
import type { BoundReward, ObserveView, RewardScore, RewardView } from '../rewards/types';
import { isRecord } from '../json';
import type { Group, Rollout } from '../types';
import { endThread } from './reward-thread';

export interface WorkerSetup {
  name: string;
  /** Absolute. */
  path: string;
  params: Readonly<Record<string, unknown>>;
  maxLength: number;
}

interface Call {
  id: number;
}

export type ToWorker =
  | { type: 'batch'; groups: readonly Group[]; step: number; maxLength: number; state: unknown }
  | (Call & { type: 'score'; group: number; rollout: number })
  | (Call & { type: 'observe' });

export type FromWorker =
  | { type: 'ready'; initialState: unknown }
  | { type: 'unloadable'; message: string }
  | (Call & { type: 'running' | 'waiting' })
  | (Call & { type: 'done'; value: unknown })
  | (Call & { type: 'failed'; message: string });

interface Observed {
  state: unknown;
  metrics: Record<string, number>;
  snapshot: Record<string, number | null>;
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
  endTimer?: () => void;
}

const NOTHING: Observed = { state: undefined, metrics: {}, snapshot: {} };

type First = Extract<FromWorker, { type: 'ready' | 'unloadable' }>;
type Answer = Exclude<FromWorker, First>;

/** The file shares the thread's port with us and may post anything. */
const isFirst = (message: unknown): message is First =>
  isRecord(message) && (message['type'] === 'ready' || message['type'] === 'unloadable');

const isAnswer = (message: unknown): message is Answer =>
  isRecord(message) && ['running', 'waiting', 'done', 'failed'].includes(message['type'] as string);

function foreign(message: unknown): string {
  const shown = inspect(message, { depth: 1, breakLength: Infinity }).slice(0, 60);
  return `it posted ${shown} to parentPort, over which acoer talks to it; remove that call of postMessage`;
}

class ModuleReward implements BoundReward {
  readonly name: string;
  readonly keepsTime = true;
  private readonly pending = new Map<number, Pending>();
  private nextId = 0;
  /** The call whose code is running now. */
  private running: number | null = null;
  /** What the worker already has, so that a batch is copied to it only once. */
  private sent: { batch: readonly Group[]; state: unknown } | null = null;
  private latest = NOTHING;
  private ended: Error | null = null;

  constructor(
    private readonly worker: Worker,
    setup: WorkerSetup,
    private readonly first: unknown,
    private readonly timeoutMs: number,
  ) {
    this.name = setup.name;
    worker.on('message', (message: unknown) => this.receive(message));
    worker.on('error', (error) => this.end(error));
    worker.on('exit', () => this.end(new Error('its thread ended')));
    worker.unref();
  }

  initialState(): unknown {
    return structuredClone(this.first);
  }

  score(rollout: Rollout, view: RewardView<unknown>): Promise<RewardScore> {
    this.send(view, view.state);
    const group = view.batch.indexOf(view.group);
    const place = { group, rollout: view.group.rollouts.indexOf(rollout) };
    return this.call((id) => ({ type: 'score', id, ...place })) as Promise<RewardScore>;
  }

  async observe(state: unknown, view: ObserveView): Promise<unknown> {
    this.send(view, state);
    this.latest = (await this.call((id) => ({ type: 'observe', id }))) as Observed;
    return this.latest.state;
  }

  /** Known only for the state that the last `observe` returned. */
  metrics(state: unknown): Record<string, number> {
    return state === this.latest.state ? this.latest.metrics : {};
  }

  snapshot(state: unknown): Record<string, number | null> {
    return state === this.latest.state ? this.latest.snapshot : {};
  }

  async close(): Promise<void> {
    this.end(new Error('the reward is closed'));
    await endThread(this.worker);
  }

  private send({ batch, step, maxLength }: ObserveView, state: unknown): void {
    if (this.sent?.batch === batch && this.sent.state === state) return;
    this.sent = { batch, state };
    this.post({ type: 'batch', groups: batch, step, maxLength, state });
  }

  private post(message: ToWorker): void {
    this.worker.postMessage(message);
  }

  private call(message: (id: number) => ToWorker): Promise<unknown> {
    if (this.ended !== null) return Promise.reject(this.ended);
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      // A pending call keeps the process alive; an idle thread does not.
      if (this.pending.size === 0) this.worker.ref();
      this.pending.set(id, { resolve, reject });
      this.post(message(id));
    });
  }

  private receive(message: unknown): void {
    if (this.ended !== null) return;
    const call = isAnswer(message) ? this.pending.get(message.id) : undefined;
    if (call === undefined) this.stop(new Error(foreign(message)));
    else this.take(message as Answer, call);
  }

  private take(message: Answer, call: Pending): void {
    switch (message.type) {
      case 'running':
        this.running = message.id;
        call.endTimer = awakeTimer(this.timeoutMs, () => this.expire(message.id));
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
    return call;
  }

  /** A call whose code never returns blocks all the others, so it is the one to name. */
  private expire(id: number): void {
    const late = new Error(`no answer within ${this.timeoutMs} ms`);
    this.settle(this.running ?? id)?.reject(late);
    this.stop(late);
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

/** Resolves with the thread's report that it has loaded the module, or why it cannot. */
function firstMessage(worker: Worker, timeoutMs: number): Promise<First> {
  return new Promise((resolve) => {
    const end = (message: First) => {
      clearTimeout(timer);
      resolve(message);
    };
    const unloadable = (message: string) => end({ type: 'unloadable', message });
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
 * Loads the reward in `setup.path`: a JavaScript module, CommonJS or ES, whose default export is what
 * `registerReward` takes. Its standard output goes to standard error.
 *
 * @param timeoutMs for each call
 * @throws BAD_CONFIG when it cannot be loaded or rejects its parameters
 */
export async function openRewardModule(
  setup: WorkerSetup,
  timeoutMs: number,
  loadTimeoutMs = LOAD_TIMEOUT_MS,
): Promise<BoundReward> {
  const worker = new Worker(join(__dirname, 'reward-worker.js'), { workerData: setup, stdout: true });
  worker.stdout.pipe(process.stderr, { end: false });
  const first = await firstMessage(worker, loadTimeoutMs);
  if (first.type === 'ready') return new ModuleReward(worker, setup, first.initialState, timeoutMs);
  await endThread(worker);
  throw new AcoerError(
    'BAD_CONFIG',
    `Cannot use the reward "${setup.name}" in ${setup.path}: ${first.message}`,
  );
}
