/** The data a configuration names. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Config } from '../config';
import { isUserJudge, referenceRule } from '../judges';
import type { DatasetSpec } from './load';
import { joinNames, partNames } from './join';
import { resolveDatasetName } from './names';

/** What is said of both. */
const shared = (config: Config) => ({
  seed: config.seed,
  skipBadRows: config.skipBadRows,
  references: referenceRule(config),
  // A built-in judge looks at no columns.
  keepRows: isUserJudge(config.judge),
});

/** The training data of a run. */
export function trainSpec(config: Config): DatasetSpec {
  return {
    name: config.dataset,
    split: 'train',
    config: config.datasetConfig,
    splitName: config.datasetSplit,
    columns: config.columns,
    levels: config.levels,
    dropUnparsedGold: config.dropUnparsedGold,
    ...shared(config),
  };
}

/** A run's evaluation data: `evalDataset`, or the training data's own evaluation split. Every row counts. */
export function evalSpec(config: Config): DatasetSpec {
  const own = config.evalDataset === null;
  return {
    name: config.evalDataset ?? config.dataset,
    split: 'eval',
    config: config.evalDatasetConfig ?? (own ? config.datasetConfig : null),
    splitName: config.evalDatasetSplit,
    columns: config.evalColumns ?? (own ? config.columns : {}),
    dropUnparsedGold: false,
    ...shared(config),
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
