/** Valid arguments for engine calls; tests change one thing at a time. */
import { readFileSync } from 'node:fs';
import type { NativeEngine } from '../../src/engine/binding';
import type { GenerateRequest, Model, PackedSequences } from '../../src/engine/types';
import { packSequences } from '../../src/base/packing';

type Args<K extends keyof NativeEngine> = NativeEngine[K] extends (args: infer A, ...rest: never[]) => unknown
  ? A
  : never;

export const ADAMW = { beta1: 0.9, beta2: 0.999, eps: 1e-8 };

/** `count` sequences of `length` tokens, the first two of which are the prompt. */
export function sequences(count = 2, length = 6): PackedSequences {
  const ids = (b: number) => Int32Array.from({ length }, (_, t) => (b * 7 + t * 3) % 40);
  return packSequences(
    Array.from({ length: count }, (_, b) => ({
      promptIds: ids(b).subarray(0, 2),
      completionIds: ids(b).subarray(2),
    })),
  );
}

export function request(changes: Partial<GenerateRequest> = {}): GenerateRequest {
  return {
    promptIds: Int32Array.of(1, 2, 3),
    seed: 7n,
    maxNewTokens: 8,
    stopIds: new Int32Array(),
    ...changes,
  };
}

export function nativeRequest(changes: object = {}): Args<'generate'>['requests'][number] {
  return {
    ...request(),
    numSamples: 1,
    firstSample: 0,
    firstToken: 0,
    group: 0,
    sampling: { temperature: 1, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1 },
    policy: null,
    ...changes,
  };
}

/** Processor time of the main thread. */
const mainThreadMs = () =>
  Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

/** The longest that the main thread computed without a turn of the event loop while `work` ran, in ms. */
export const longestBusyMs = (work: () => Promise<unknown>): Promise<number> => longest(work, mainThreadMs);

/** The longest pause of the event loop while `work` ran, in ms. */
export const longestPauseMs = (work: () => Promise<unknown>): Promise<number> =>
  longest(work, () => performance.now());

async function longest(work: () => Promise<unknown>, clock: () => number): Promise<number> {
  let last = clock();
  let longest = 0;
  const look = (): void => {
    const now = clock();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(look, 2);
  try {
    await work();
    look();
  } finally {
    clearInterval(timer);
  }
  return longest;
}

/** Runs `work` and measures how long it took. */
export async function timed<T>(work: () => Promise<T>): Promise<{ value: T; elapsedMs: number }> {
  const start = performance.now();
  const value = await work();
  return { value, elapsedMs: performance.now() - start };
}

/** The error of a rejecting or throwing `work`; fails if there is none. */
export async function failureOf(
  work: () => unknown,
): Promise<{ code?: string; message: string; stack?: string }> {
  try {
    await work();
  } catch (error) {
    return error as { code?: string; message: string; stack?: string };
  }
  throw new Error('the call should have failed');
}

/** Requests that would generate for a very long time: a call that only a cancellation can end. */
export function endless(
  model: Model,
  options: Parameters<Model['generate']>[1] = {},
): ReturnType<Model['generate']> {
  return model.generate([request({ maxNewTokens: 3000, numSamples: 4 })], options);
}
