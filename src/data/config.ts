/** The data a configuration names. */
import { existsSync } from 'node:fs';
import type { Config } from '../config';
import type { DatasetSpec } from './index';
import { resolveDatasetName } from './names';

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
  };
}

/** What a run is evaluated on: `evalDataset`, or the training data's own evaluation split. Every row counts there. */
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
  };
}

/** Whether a data set's name means a file or folder that is there. */
export function datasetIsPath(name: string): boolean {
  return resolveDatasetName(name).kind === 'path' && existsSync(name);
}
