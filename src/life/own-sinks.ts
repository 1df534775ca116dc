/** The sinks that come with a run: its own files, and the trackers that its settings ask for. */
import type { Config } from '../config';
import { MetricsCsv, MetricsFile, writeCompletions, type RunDirectory } from '../run';
import type { Sink } from './sink';
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
