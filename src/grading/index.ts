export { type GradingItem, type PoolOptions, VerifierPool } from './pool';
