/** The port through which a run's numbers leave it. */
import type { Config } from '../config';
import type { CompletionRow } from '../run';
import type { StepMetrics } from '../base/types';
import type { TrainEvent } from './events';

/**
 * Receives what a run reports. Every method may be left out. The run waits for a promise that a method
 * returns, so slow work is better started at once and awaited in `flush`. A method that throws, or takes longer
 * than `sinkTimeoutMs`, is the last that its sink is asked: one warning names it, and the run goes on.
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

/**
 * The default export of a module that `sinks` of a configuration names; it runs in a thread of its own. `config` has
 * the settings of `acoer sft` when that runs it.
 */
export type SinkMaker = (run: { directory: string; config: Config }) => Sink | Promise<Sink>;

/** What the sinks of any run depend on. */
export type SinkSettings = Pick<Config, 'sinks' | 'sinkTimeoutMs'>;

export type SinkCall = keyof Sink;
export const SINK_CALLS = [
  'rewind',
  'step',
  'completions',
  'event',
  'flush',
  'close',
] as const satisfies SinkCall[];
export type SinkArguments<Call extends SinkCall> = Parameters<NonNullable<Sink[Call]>>;

/** Calls a method of `sink`, if it has it. */
export async function giveTo<Call extends SinkCall>(
  sink: Sink,
  call: Call,
  given: SinkArguments<Call>,
): Promise<void> {
  await (sink[call] as ((...values: unknown[]) => unknown) | undefined)?.apply(sink, given);
}
