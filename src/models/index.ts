export { adapterWeights, openAdapter, readAdapterShape } from './adapter';
export { moduleName } from './adapter-targets';
export { registerModelFamily } from './families';
export { adapterFingerprints, modelFingerprints, type Fingerprints } from './fingerprint';
export { openModelFiles, readModelSpec, readModelType, type ModelFiles } from './model-files';
export { openWeights, type WeightFiles } from './weight-files';
export {
  resolveModel,
  resolveShape,
  resolveTokenizer,
  TINY_MODEL,
  type ModelFetchOptions,
  type ModelLocation,
} from './resolve';
export type { ModelFamily } from './spec';
export { openTensorFiles, type TensorNames } from './tensor-files';
export type { ModelSpec } from './spec';
