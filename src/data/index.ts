/** Datasets by name, hub id or path, with random access; the training loop chooses the order. */
export { givenDataset } from './given';
export { evalSpec, isLocal, trainSpec, withAbsolutePath } from './config';
export { contaminationLines } from './contamination';
export { joinNames, partNames } from './join';
export { type Dataset, type DatasetSpec, datasetOf, loadDataset } from './load';
export { isKnownName, KNOWN_DATASETS, memoryName } from './names';
export { EMBEDDED_TASKS, isEmbeddedTask } from './tiny/task';
export { type Match, type Overlap, overlapOf, overlapText } from './overlap';
export { type GivenData, loadRunData, type RunData } from './run-data';
