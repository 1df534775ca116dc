/** Resuming a run of GRPO: which settings may change, and the command for other changes. */
import { sha256 } from '../base/sha256';
import type { Config } from '../config';
import { isJudgeFile } from '../judges';
import { COMMON_EFFECTS, type Changeable } from '../life/changes';

const effects: Changeable<Config>['effects'] = {
  ...COMMON_EFFECTS,
  completionsSteps: 'nothing',
  logCompletions: 'nothing',
  nonFinitePolicy: 'nothing',
  maxNonFiniteSteps: 'nothing',
  onCollapse: 'nothing',
  maxRollbacks: 'nothing',
  rollbackPressure: 'nothing',
  rewardTimeoutMs: 'nothing',
  maxPromptLength: 'prompts',
  maxSlots: 'rounding',
  kvBytes: 'rounding',
  numSpeculativeTokens: 'rounding',
  rewardModules: 'place',
  judge: 'place',
  sampler: 'prompts',
};

/** The command that continues from a step of `run` when it cannot be resumed. */
export const forkCommand = (run: string, step: number): string => `acoer fork ${run} --at ${step}`;

export const CHANGEABLE: Changeable<Config> = {
  effects,
  isFile: {
    judge: ({ judge }) => isJudgeFile(judge),
    adapter: ({ adapter }) => adapter !== null,
  },
  otherwise: (run, step) => `continue in a new folder: ${forkCommand(run, step)} --set ...`,
};

/** SHA-256 of a configuration, whatever the order of its keys. */
export function configHash(config: Config): string {
  const sorted = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(sorted);
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]));
  };
  return sha256(JSON.stringify(sorted(config)));
}
