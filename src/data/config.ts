/** The data a configuration names. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Config } from '../config';
import { isUserJudge, referenceRule } from '../judges';
import type { DatasetSpec } from './load';
import { joinNames, partNames } from './join';
import { resolveDatasetName } from './names';

/** A built-in judge looks at no columns, so they are not kept for it. */
const judged = (config: Config): Pick<DatasetSpec, 'references' | 'keepRows'> => ({
  references: referenceRule(config),
  keepRows: isUserJudge(config.judge),
});

/** The training data of a run. */
export function trainSpec(config: Config): DatasetSpec {
  return {
    name: config.dataset,
    split: 'train',
    seed: config.seed,
    config: config.datasetConfig,
    splitName: config.datasetSplit,
    columns: config.columns,
    levels: config.levels,
    skipBadRows: config.skipBadRows,
    dropUnparsedGold: config.dropUnparsedGold,
    ...judged(config),
  };
}

/** A run's evaluation data: `evalDataset`, or the training data's own evaluation split. Every row counts. */
export function evalSpec(config: Config): DatasetSpec {
  const own = config.evalDataset === null;
  return {
    name: config.evalDataset ?? config.dataset,
    split: 'eval',
    seed: config.seed,
    config: config.evalDatasetConfig ?? (own ? config.datasetConfig : null),
    splitName: config.evalDatasetSplit,
    columns: config.evalColumns ?? (own ? config.columns : {}),
    skipBadRows: config.skipBadRows,
    dropUnparsedGold: false,
    ...judged(config),
  };
}

/** The name with absolute paths, so that it means the same from any folder. */
export function withAbsolutePath(name: string): string {
  const absolute = partNames(name).map((part) =>
    resolveDatasetName(part).kind === 'path' && existsSync(part) ? resolve(part) : part,
  );
  return joinNames(absolute);
}

/** Whether a name refers only to files and folders on this machine. */
export const isLocal = (name: string): boolean =>
  partNames(name).every((part) => resolveDatasetName(part).kind === 'path');
