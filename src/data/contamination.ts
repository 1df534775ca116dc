/** Whether problems of benchmarks are in the training data of runs, where both lie on this machine. */
import { AcoerError, errorMessage } from '../base/errors';
import type { Config } from '../config';
import { isLocal } from './config';
import type { Dataset } from './load';
import { overlapOf, overlapText } from './overlap';
import { loadRunData } from './run-data';
import { isEmbeddedTask } from './tiny/task';

export interface Benchmark {
  /** In messages. */
  name: string;
  /** null: what the run is evaluated on. */
  dataset: Dataset | null;
}

/** What the run is evaluated on. */
const evaluationName = ({ dataset, evalDataset }: Config): string => evalDataset ?? dataset;

/** The training data is read once for all benchmarks. */
async function linesOf(
  config: Config,
  benchmarks: readonly Benchmark[],
  signal?: AbortSignal,
): Promise<string[]> {
  const { dataset } = config;
  const evaluatesHere = isLocal(evaluationName(config));
  if (!isLocal(dataset) || (!evaluatesHere && benchmarks.some((one) => one.dataset === null))) {
    return benchmarks.map(
      ({ name }) =>
        `contamination of ${name} by ${dataset} is not checked here, since it may have to be fetched: acoer data ${dataset} --against ${name} checks it.`,
    );
  }
  // What was held out for evaluation was not trained on.
  const apart = evaluatesHere ? {} : { evalProblems: 0, evalSampledProblems: 0 };
  try {
    const { trainData, evalData } = await loadRunData({ ...config, ...apart, skipBadRows: true });
    const lines: string[] = [];
    for (const { name, dataset: given } of benchmarks) {
      const problems = given ?? evalData;
      lines.push(
        problems === null
          ? `contamination of ${name} is not checked: the runs evaluate nothing.`
          : `${overlapText(name, await overlapOf(problems, trainData, signal))}.`,
      );
    }
    return lines;
  } catch (error) {
    if (!(error instanceof AcoerError) || signal?.aborted === true) throw error;
    const why = errorMessage(error);
    return benchmarks.map(({ name }) => `contamination of ${name} by ${dataset} is not checked: ${why}`);
  }
}

/**
 * A line for each pair of training and evaluation data; none for the embedded tasks, whose parts are apart.
 * @param configs of the runs
 * @param benchmarks null: what each run is evaluated on
 */
export async function contaminationLines(
  configs: readonly Config[],
  benchmarks: readonly Benchmark[] | null = null,
  signal?: AbortSignal,
): Promise<string[]> {
  const apart = configs.filter(({ dataset }) => !isEmbeddedTask(dataset));
  const pairs = new Map(apart.map((config) => [`${config.dataset}\n${evaluationName(config)}`, config]));
  const lines: string[] = [];
  for (const config of pairs.values()) {
    const own = [{ name: evaluationName(config), dataset: null }];
    lines.push(...(await linesOf(config, benchmarks ?? own, signal)));
  }
  return lines;
}
