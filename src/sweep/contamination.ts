/** Whether problems of a sweep's evaluations are also in its training data. */
import { contaminationLine, evaluationName } from '../data';
import type { SweepResults } from './results';

/** A line for each pair of training and evaluation data. */
export async function contaminationLines({ methods }: SweepResults): Promise<string[]> {
  const configs = methods
    .flatMap(({ runs }) => runs.map(({ data }) => data?.config ?? null))
    .filter((config) => config !== null);
  const pairs = new Map(configs.map((config) => [`${config.dataset}\n${evaluationName(config)}`, config]));
  const lines: (string | null)[] = [];
  for (const config of pairs.values()) lines.push(await contaminationLine(config));
  return lines.filter((line) => line !== null);
}
