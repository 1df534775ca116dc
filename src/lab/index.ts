export { LAB_DEFAULTS, runLab, type LabOptions } from './lab';
export { compositionRow } from './composition';
export { SYNTHETIC_DEFAULTS, type LengthDistribution } from './population';
export type { RecordedCompletion } from './recorded';
export { SPREAD_FACTORS } from './pressure';
export { balanceOf, EPSILONS, holdOf, strengthOf } from './length-weight';
export { homogeneousOf, pathwayNames } from './prediction';
export type * from './types';
export { plotLab } from './plot';
