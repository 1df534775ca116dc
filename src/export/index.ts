export { exportMerged, type MergeOptions, type MergeReport } from './merged-model';
export { exactness } from './card';
export { STORED_TYPES, type StoredType } from './merge';
export { type Proof, proofProblem } from './proof';
export { type ExportSource, openSource } from './source';
