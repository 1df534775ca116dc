/** Datasets by name, hub id or path, with random access; the training loop chooses the order. */
export { BadRow } from './rows';
export { chatOf } from './chat';
export { head, questionOf, type RowMap, type RowProblem, solutionText, USUAL, valueAt } from './columns';
export { givenDataset } from './given';
export { evalSpec, isLocal, trainSpec, withAbsolutePath } from './config';
export { joinNames, partNames } from './join';
export { type Dataset, type DatasetSpec, datasetOf, loadDataset } from './load';
export { KNOWN_DATASETS, memoryName } from './names';
export { type GivenData, loadRunData, type RunData } from './run-data';
