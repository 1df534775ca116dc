/** Whether problems of a sweep's evaluations are also in its training data, where both are files on this machine. */
import { AcoerError, errorMessage } from '../base/errors';
import { isEmbeddedTask, isLocal, loadRunData, overlapOf, overlapText } from '../data';
import type { Config } from '../config';
import type { SweepResults } from './results';

const nameOf = ({ dataset, evalDataset }: Config): string => evalDataset ?? dataset;

async function lineOf(config: Config): Promise<string> {
  const { dataset } = config;
  const name = nameOf(config);
  if (!isLocal(dataset) || !isLocal(name)) {
    return `contamination of ${name} by ${dataset} is not checked here, since it may have to be fetched: acoer data ${dataset} --against ${name} checks it.`;
  }
  try {
    const { trainData, evalData } = await loadRunData({ ...config, skipBadRows: true });
    if (evalData === null) return `contamination of ${name} is not checked: the runs evaluate nothing.`;
    return `${overlapText(name, await overlapOf(evalData, trainData))}.`;
  } catch (error) {
    if (!(error instanceof AcoerError)) throw error;
    return `contamination of ${name} by ${dataset} is not checked: ${errorMessage(error)}`;
  }
}

/** A line for each pair of training and evaluation data; none for the embedded tasks, whose parts are apart. */
export async function contaminationLines({ methods }: SweepResults): Promise<string[]> {
  const configs = methods
    .flatMap(({ runs }) => runs.map(({ data }) => data?.config ?? null))
    .filter((config) => config !== null)
    .filter(({ dataset }) => !isEmbeddedTask(dataset));
  const pairs = new Map(configs.map((config) => [`${config.dataset}\n${nameOf(config)}`, config]));
  const lines: string[] = [];
  for (const config of pairs.values()) lines.push(await lineOf(config));
  return lines;
}
