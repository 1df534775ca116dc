export { type GradingItem, VerifierPool } from './pool';
