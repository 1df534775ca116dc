/** A line on whether problems of a benchmark are in a run's training data, where both lie on this machine. */
import { AcoerError, errorMessage } from '../base/errors';
import type { Config } from '../config';
import { isLocal } from './config';
import type { Dataset } from './load';
import { overlapOf, overlapText } from './overlap';
import { loadRunData } from './run-data';
import { isEmbeddedTask } from './tiny/task';

/** What the run is evaluated on. */
export const evaluationName = ({ dataset, evalDataset }: Config): string => evalDataset ?? dataset;

/**
 * @param name of the benchmark
 * @param benchmark null: what the run is evaluated on
 * @returns null for an embedded task, whose parts are apart
 */
export async function contaminationLine(
  config: Config,
  name = evaluationName(config),
  benchmark: Dataset | null = null,
  signal?: AbortSignal,
): Promise<string | null> {
  const { dataset } = config;
  if (isEmbeddedTask(dataset)) return null;
  const evaluatesHere = isLocal(evaluationName(config));
  if (!isLocal(dataset) || (benchmark === null && !evaluatesHere)) {
    return `contamination of ${name} by ${dataset} is not checked here, since it may have to be fetched: acoer data ${dataset} --against ${name} checks it.`;
  }
  // What was held out for evaluation was not trained on.
  const apart = evaluatesHere ? {} : { evalProblems: 0, evalSampledProblems: 0 };
  try {
    const { trainData, evalData } = await loadRunData({ ...config, ...apart, skipBadRows: true });
    const problems = benchmark ?? evalData;
    if (problems === null) return `contamination of ${name} is not checked: the runs evaluate nothing.`;
    return `${overlapText(name, await overlapOf(problems, trainData, signal))}.`;
  } catch (error) {
    if (!(error instanceof AcoerError) || signal?.aborted === true) throw error;
    return `contamination of ${name} by ${dataset} is not checked: ${errorMessage(error)}`;
  }
}
