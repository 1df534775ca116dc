/** Datasets by name, hub id or path, with random access; the training loop chooses the order. */
export type { RowReport, RowTally } from './collect';
export type { ColumnNames } from './columns';
export { evalSpec, isLocal, trainSpec, withAbsolutePath } from './config';
export { goldParses } from './gold';
export { joinNames, partNames } from './join';
export { type Dataset, type DatasetSource, type DatasetSpec, loadDataset } from './load';
export { KNOWN_DATASETS, memoryName, type KnownDataset } from './names';
export { type GivenData, loadRunData, type RunData } from './run-data';
