export type { ProcessGroup } from './process-group';
export { RankError, Ranks, shareOf } from './ranks';
