import type { GgufReport } from './exported-gguf';
import type { MergeReport } from './merged-model';

export { exactness, otherBase } from './card';
export { exportGguf, type GgufExportOptions, type GgufReport } from './exported-gguf';
export type { GgufFileType } from './gguf-keys';
export { STORED_TYPES, type StoredType } from './merge';
export { exportMerged, type MergeOptions, type MergeReport } from './merged-model';
export { type Proof, proofProblem } from './proof';
export { type ExportSource, openSource } from './source';
export type ExportReport = MergeReport | GgufReport;
