/** The sinks of a run: its own, and the user's. Those that fail or are late are left out, and the run goes on. */
import { basename, join } from 'node:path';
import { badArgument, needFunction } from '../base/border';
import { awakeTimer, isPromise, late, withinTime, withTimeout } from '../base/deadline';
import { errorMessage } from '../base/errors';
import { isRecord } from '../base/json';
import { NO_WATCH, type Watch } from '../grpo/watch';
import type { RunEvent, TrainEvent } from './events';
import { openSinkModule } from './modules/sink-module';
import { giveTo, SINK_CALLS, type Sink, type SinkArguments, type SinkCall, type SinkSettings } from './sink';
import { isNamedSink, type Config } from '../config';
import { MetricsCsv, MetricsFile, writeCompletions, type RunDirectory } from '../run';
import { TensorBoardSink, type TensorBoardSettings } from './tensorboard';

/**
 * One JSON object per step.
 * @param warn gets one sentence when a number is left out because it is not finite, or lines were lost
 */
export function metricsSink(directory: RunDirectory, warn: (message: string) => void): Sink {
  let file: MetricsFile | null = null;
  return {
    async rewind(step) {
      file?.close();
      file = await MetricsFile.open(directory.metrics(), step, warn, directory.savedMetrics);
    },
    step: (metrics) => file!.append(metrics),
    flush: () => file?.sync(),
    close: () => file?.close(),
  };
}

/** One Parquet file per step that has a table; a step that is repeated replaces its table. */
export const completionsSink = (directory: RunDirectory): Sink => ({
  completions: (step, rows) => writeCompletions(directory.completions(step), step, rows),
});

function csvSink(directory: RunDirectory): Sink {
  let file: MetricsCsv | null = null;
  return {
    rewind() {
      file?.close();
      file = new MetricsCsv(directory.metricsCsv(), directory.metrics());
    },
    step: (metrics) => file!.append(metrics),
    close: () => file?.close(),
  };
}

/**
 * Trackers, each with its name in messages. What they hold can be made again from the run's own files, so they
 * are treated like the user's sinks: one that fails does not end the run.
 * @param judged TensorBoard's tags that judge a run
 */
export function trackers(
  directory: RunDirectory,
  config: TensorBoardSettings & Pick<Config, 'tensorboard' | 'csv'>,
  judged: readonly string[],
): [name: string, sink: Sink][] {
  return [
    ...(config.tensorboard
      ? [['tensorboard', new TensorBoardSink(directory, config, judged)] as [string, Sink]]
      : []),
    ...(config.csv ? [['metrics.csv', csvSink(directory)] as [string, Sink]] : []),
  ];
}

/** A sink of a run. */
interface Entry {
  /** In messages. */
  name: string;
  sink: Sink;
  /** The sink is ours, or its thread ends a call that takes too long. */
  keepsTime: boolean;
  /** Ends the sink's thread. */
  end?(): Promise<void>;
}

/** Once the run is to end, a sink has this long for a call. */
const LAST_MS = 2_000;

/**
 * Trackers and the user's sinks. One that throws, or does not answer in time, is reported once and then left out: a
 * display must not end a run, or keep it from ending.
 */
export class Sinks {
  /** Notices code that blocks the main thread. */
  watch: Watch = NO_WATCH;
  /** Aborts when the run is asked to end. */
  ending?: AbortSignal;
  private readonly live: Set<Entry>;
  /** Events are given in order; the run does not wait for them. */
  private events: Promise<void> = Promise.resolve();
  /** A report of progress waits or is being taken. */
  private progressing = false;

  constructor(
    entries: readonly Entry[],
    private readonly timeoutMs: number,
    private readonly warn: (message: string) => void,
  ) {
    this.live = new Set(entries);
  }

  /** Gives to every sink, as a phase of the run. */
  async give<Call extends SinkCall>(call: Call, ...given: SinkArguments<Call>): Promise<void> {
    if (this.live.size > 0) await this.watch.phase('sink', () => this.giveAll(call, given, this.watch));
  }

  /** @param watch is told of each sink; events, which are given while other phases run, tell nobody */
  private async giveAll<Call extends SinkCall>(
    call: Call,
    given: SinkArguments<Call>,
    watch: Watch = NO_WATCH,
  ): Promise<void> {
    for (const entry of [...this.live]) {
      if (entry.sink[call] === undefined) continue;
      watch.note(() => `sink ${entry.name}: ${call}`);
      try {
        await this.inTime(this.begun(entry, call, given));
      } catch (error) {
        this.warn(`Sink ${entry.name} failed at ${call} and gets nothing more: ${errorMessage(error)}`);
        this.live.delete(entry);
        await entry.end?.();
      }
      watch.progress();
    }
  }

  /** Calls a method; its code and its promise both have the time limit. */
  private async begun<Call extends SinkCall>(
    { sink, keepsTime }: Entry,
    call: Call,
    given: SinkArguments<Call>,
  ): Promise<void> {
    if (keepsTime) return giveTo(sink, call, given);
    const work = withinTime(this.timeoutMs, (): unknown =>
      (sink[call] as (...values: unknown[]) => unknown).apply(sink, given),
    );
    if (work === null) throw late(this.timeoutMs);
    if (isPromise(work.value)) await withTimeout(work.value, this.timeoutMs);
  }

  /** Waits for a call, but only a little longer once the run is to end. */
  private inTime(work: Promise<void>): Promise<void> {
    const { ending } = this;
    if (ending === undefined) return work;
    return new Promise((resolve, reject) => {
      let cancel = () => undefined as void;
      const hurry = () => {
        cancel = awakeTimer(LAST_MS, () =>
          reject(new Error(`no answer within ${LAST_MS} ms after the run was to end`)),
        );
      };
      if (ending.aborted) hurry();
      else ending.addEventListener('abort', hurry, { once: true });
      void work.then(resolve, reject).finally(() => {
        cancel();
        ending.removeEventListener('abort', hurry);
      });
    });
  }

  /** Progress is not kept for a sink that is still taking an earlier report of it. */
  event(event: RunEvent): void {
    if (this.live.size === 0) return;
    const passing = event.type === 'decode-progress' || event.type === 'eval-progress';
    if (passing && this.progressing) return;
    this.progressing ||= passing;
    this.events = this.events
      // Sinks are written for the events of `train`; those of `sft` with the same names are the same.
      .then(() => this.giveAll('event', [event as TrainEvent]))
      .then(() => {
        if (passing) this.progressing = false;
      });
  }

  async close(): Promise<void> {
    await this.events;
    await this.give('close');
    await Promise.all([...this.live].map(async (entry) => entry.end?.()));
  }
}

/**
 * The sinks of a run besides its own files: objects as they are, and one made by each name or module of `config.sinks`.
 * @param built what the run brings itself, each with its name in messages
 * @param given the option `sinks`, if the caller gave any
 * @throws BAD_CONFIG for a module that cannot be loaded or makes no sink; the sinks made so far are closed
 */
export async function openSinks(
  built: readonly [name: string, sink: Sink][],
  given: readonly Sink[],
  run: { directory: string; config: SinkSettings },
  warn: (message: string) => void,
  signal?: AbortSignal,
): Promise<Sinks> {
  const { sinks: modules, sinkTimeoutMs: timeoutMs } = run.config;
  const entries: Entry[] = built.map(([name, sink]) => ({ name, sink, keepsTime: true }));
  given.forEach((sink, i) => entries.push({ name: `${i + 1} of train()`, sink, keepsTime: false }));
  try {
    for (const path of modules) {
      const file = isNamedSink(path) ? join(__dirname, 'modules', `${path}-sink.js`) : path;
      const module = await openSinkModule({ name: basename(path), path: file, run }, timeoutMs, signal);
      entries.push({ name: path, keepsTime: true, ...module });
    }
  } catch (error) {
    await new Sinks(entries, timeoutMs, warn).close();
    throw error;
  }
  return new Sinks(entries, timeoutMs, warn);
}

/** @throws BAD_ARGUMENT for `sinks` of `train()` that are none */
export function checkSinks(given: unknown): void {
  if (given === undefined) return;
  if (!Array.isArray(given)) throw badArgument('sinks', 'a list', given);
  given.forEach((sink: unknown, i) => {
    const what = `sinks[${i}]`;
    if (typeof sink === 'function' || !isRecord(sink)) throw badArgument(what, 'an object', sink);
    for (const call of SINK_CALLS) if (sink[call] !== undefined) needFunction(`${what}.${call}`, sink[call]);
  });
}
