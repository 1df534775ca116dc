/** Where a run's numbers go besides its own files: the port, and what is done with sinks of the user's. */
import { pathToFileURL } from 'node:url';
import type { Config } from '../config';
import { AcoerError, errorMessage } from '../errors';
import { isRecord } from '../json';
import type { CompletionRow } from '../run';
import type { StepMetrics } from '../types';
import type { TrainEvent } from './events';

/** Every member may be left out; a promise is waited for, so what is slow should be sent on and awaited in `flush`. */
export interface Sink {
  /** The run stands at `step`: what was given of later steps will be given again. First of all, and after a rollback. */
  rewind?(step: number): void | Promise<void>;
  /** A finished line, as in metrics.jsonl. */
  step?(metrics: StepMetrics): void | Promise<void>;
  /** The completions of a step, where `completionsSteps` asks for them; groups end to end. */
  completions?(step: number, rows: readonly CompletionRow[]): void | Promise<void>;
  event?(event: TrainEvent): void | Promise<void>;
  /** A checkpoint is about to be written: its steps are not given again after a crash. */
  flush?(): void | Promise<void>;
  close?(): void | Promise<void>;
}

/** The default export of a module that `sinks` of a configuration names. */
export type SinkMaker = (run: { directory: string; config: Config }) => Sink | Promise<Sink>;

type Calls = 'rewind' | 'step' | 'completions' | 'event' | 'flush' | 'close';

/** The sinks of a run. One that fails is told of once and left out from there on: a run does not end for its display. */
export class Sinks {
  private readonly live: Map<Sink, string>;
  /** Events are given in order, and nobody waits for them. */
  private events: Promise<void> = Promise.resolve();

  /** @param named each with what it is called in messages */
  constructor(
    named: readonly (readonly [name: string, sink: Sink])[],
    private readonly warn: (message: string) => void,
  ) {
    this.live = new Map(named.map(([name, sink]) => [sink, name]));
  }

  async give<Call extends Calls>(call: Call, ...given: Parameters<NonNullable<Sink[Call]>>): Promise<void> {
    for (const [sink, name] of [...this.live]) {
      try {
        await (sink[call] as ((...values: unknown[]) => unknown) | undefined)?.(...given);
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

/**
 * The sinks that `paths` name, made for this run.
 * @throws BAD_CONFIG for a module that cannot be loaded or has no maker of a sink
 */
export async function loadSinks(
  paths: readonly string[],
  run: Parameters<SinkMaker>[0],
): Promise<[name: string, sink: Sink][]> {
  const made: [string, Sink][] = [];
  for (const path of paths) {
    const bad = (why: string, cause?: unknown) =>
      new AcoerError('BAD_CONFIG', `sinks: ${path} ${why}`, { cause });
    const found = (await import(pathToFileURL(path).href).catch((cause: unknown) => {
      throw bad(`cannot be loaded: ${errorMessage(cause)}`, cause);
    })) as { default?: unknown };
    // A CommonJS module that another tool compiled has its default export one deeper.
    const maker = isRecord(found.default) ? found.default['default'] : found.default;
    if (typeof maker !== 'function') throw bad('has no function as its default export; it must make a sink');
    const sink: unknown = await (maker as SinkMaker)(run);
    if (!isRecord(sink)) throw bad('made no sink: its function must return an object');
    made.push([path, sink as Sink]);
  }
  return made;
}
