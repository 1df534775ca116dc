/** The run's own files as sinks: metrics.jsonl and the tables of completions. */
import { MetricsFile, writeCompletions, type RunDirectory } from '../run';
import type { Sink } from './sinks';

/**
 * One JSON object per step.
 * @param warn gets one sentence when a number is left out because it is not finite
 */
export function metricsSink(directory: RunDirectory, warn: (message: string) => void): Sink {
  let file: MetricsFile | null = null;
  return {
    rewind(step) {
      file?.close();
      file = new MetricsFile(directory.metrics(), step, warn);
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
