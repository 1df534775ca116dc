/** The port through which a run's numbers leave it, and the handling of the user's sinks. */
import type { Config } from '../config';
import { AcoerError, errorMessage } from '../errors';
import { isRecord } from '../json';
import type { CompletionRow } from '../run';
import type { StepMetrics } from '../types';
import type { TrainEvent } from './events';
import { importDefault } from './import-default';

/**
 * Receives what a run reports. Every method may be left out. The run waits for a promise that a method
 * returns, so slow work is better started at once and awaited in `flush`.
 */
export interface Sink {
  /** The run is at `step`: later steps will be given again. Called first, and after a rollback. */
  rewind?(step: number): void | Promise<void>;
  /** A finished line, as in metrics.jsonl. */
  step?(metrics: StepMetrics): void | Promise<void>;
  /** The completions of a step, every `completionsSteps` steps; groups end to end. */
  completions?(step: number, rows: readonly CompletionRow[]): void | Promise<void>;
  event?(event: TrainEvent): void | Promise<void>;
  /** A checkpoint is about to be written: after a crash, the steps so far are not given again. */
  flush?(): void | Promise<void>;
  close?(): void | Promise<void>;
}

/** The default export of a module that `sinks` of a configuration names. */
export type SinkMaker = (run: { directory: string; config: Config }) => Sink | Promise<Sink>;

export type SinkCall = keyof Sink;
export type SinkArguments<Call extends SinkCall> = Parameters<NonNullable<Sink[Call]>>;

/** Calls a method of `sink`, if it has it. */
export async function giveTo<Call extends SinkCall>(
  sink: Sink,
  call: Call,
  given: SinkArguments<Call>,
): Promise<void> {
  await (sink[call] as ((...values: unknown[]) => unknown) | undefined)?.apply(sink, given);
}

/** Trackers and the user's sinks. One that fails is reported once and then left out: a display must not end a run. */
export class Sinks {
  private readonly live: Map<Sink, string>;
  /** Events are given in order; the run does not wait for them. */
  private events: Promise<void> = Promise.resolve();

  /** @param named each with its name in messages */
  constructor(
    named: readonly (readonly [name: string, sink: Sink])[],
    private readonly warn: (message: string) => void,
  ) {
    this.live = new Map(named.map(([name, sink]) => [sink, name]));
  }

  async give<Call extends SinkCall>(call: Call, ...given: SinkArguments<Call>): Promise<void> {
    for (const [sink, name] of [...this.live]) {
      try {
        await giveTo(sink, call, given);
      } catch (error) {
        this.live.delete(sink);
        this.warn(`Sink ${name} failed at ${call} and gets nothing more: ${errorMessage(error)}`);
      }
    }
  }

  event(event: TrainEvent): void {
    if (this.live.size > 0) this.events = this.events.then(() => this.give('event', event));
  }

  async close(): Promise<void> {
    await this.events;
    await this.give('close');
  }
}

const bad = (path: string, why: string, cause?: unknown) =>
  new AcoerError('BAD_CONFIG', `sinks: ${path} ${why}`, { cause });

async function makeSink(path: string, run: Parameters<SinkMaker>[0]): Promise<Sink> {
  const maker = await importDefault(path).catch((cause: unknown) => {
    throw bad(path, `cannot be loaded: ${errorMessage(cause)}`, cause);
  });
  if (typeof maker !== 'function')
    throw bad(path, 'has no function as its default export; it must make a sink');
  const sink: unknown = await (maker as SinkMaker)(run);
  if (!isRecord(sink)) throw bad(path, 'made no sink: its function must return an object');
  return sink;
}

/**
 * The sinks of a run besides its own files: objects as they are, and one made by each module of `config.sinks`.
 * @param built what the run brings itself, each with its name in messages
 * @param given the objects and paths of `train({ sinks })`, if the caller gave any
 * @throws BAD_CONFIG for a module that cannot be loaded or makes no sink; the sinks made so far are closed
 */
export async function openSinks(
  built: readonly [name: string, sink: Sink][],
  given: readonly (Sink | string)[],
  run: Parameters<SinkMaker>[0],
  warn: (message: string) => void,
): Promise<Sinks> {
  const objects = given.flatMap((sink, i): [string, Sink][] =>
    typeof sink === 'string' ? [] : [[`${i + 1} of train()`, sink]],
  );
  const named = [...built, ...objects];
  try {
    for (const path of run.config.sinks) named.push([path, await makeSink(path, run)]);
  } catch (error) {
    await new Sinks(named, warn).close();
    throw error;
  }
  return new Sinks(named, warn);
}
