/** Resuming a run: which settings may differ from those its steps were made with. */
import { createHash } from 'node:crypto';
import type { Config } from '../config';
import { AcoerError } from '../errors';
import { isJudgeFile } from '../judges';

/** Settings that a resumed run may change, and the effect. */
const CHANGEABLE: Readonly<
  Partial<Record<keyof Config, 'nothing' | 'rounding' | 'schedule' | 'prompts' | 'place'>>
> = {
  maxSteps: 'schedule',
  saveSteps: 'nothing',
  keepCheckpoints: 'nothing',
  evalSteps: 'nothing',
  completionsSteps: 'nothing',
  logCompletions: 'nothing',
  nonFinitePolicy: 'nothing',
  maxNonFiniteSteps: 'nothing',
  onCollapse: 'nothing',
  maxRollbacks: 'nothing',
  rollbackPressure: 'nothing',
  rewardTimeoutMs: 'nothing',
  watchdogMs: 'nothing',
  watchdogPhaseMs: 'nothing',
  onHang: 'nothing',
  name: 'nothing',
  sinks: 'nothing',
  sinkTimeoutMs: 'nothing',
  tensorboard: 'nothing',
  csv: 'nothing',
  maxPromptLength: 'prompts',
  maxSlots: 'rounding',
  kvBytes: 'rounding',
  microBatchTokens: 'rounding',
  memoryLimitBytes: 'rounding',
  threads: 'rounding',
  device: 'rounding',
  model: 'place',
  adapter: 'place',
  rewardModules: 'place',
  judge: 'place',
};

const EFFECTS = {
  nothing: '',
  rounding: ' (later numbers may differ by rounding)',
  schedule: ' (the learning rate of later steps follows the new length)',
  place: ' (the same files elsewhere)',
  prompts: ' (later numbers are no longer those of an uninterrupted run)',
} as const;

interface Change {
  name: keyof Config;
  text: string;
}

export function configHash(config: Config): string {
  const sorted = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(sorted);
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]));
  };
  return createHash('sha256')
    .update(JSON.stringify(sorted(config)))
    .digest('hex');
}

/** Settings that may name a file or not: a file may move, but nothing else can become or replace one. */
const IS_FILE: Readonly<Partial<Record<keyof Config, (config: Config) => boolean>>> = {
  judge: ({ judge }) => isJudgeFile(judge),
  adapter: ({ adapter }) => adapter !== null,
};

const isMove = (name: keyof Config, before: Config, after: Config): boolean => {
  const isFile = IS_FILE[name];
  return isFile === undefined || (isFile(before) && isFile(after));
};

function changesBetween(before: Config, after: Config): Change[] {
  const names = Object.keys(after) as (keyof Config)[];
  return names
    .map((name) => ({ name, from: JSON.stringify(before[name]), to: JSON.stringify(after[name]) }))
    .filter(({ from, to }) => from !== to)
    .map(({ name, from, to }) => ({ name, text: `${name} ${from} -> ${to}` }));
}

/** Whether a batch generated under `before` is what `after` would generate. */
export function sameSteps(before: Config, after: Config): boolean {
  const changes = changesBetween(before, after);
  if (!changes.every(({ name }) => isMove(name, before, after))) return false;
  const effects = changes.map(({ name }) => CHANGEABLE[name]);
  return effects.every((effect) => effect !== undefined && effect !== 'prompts');
}

/** The command that continues from a step of `run` when it cannot be resumed. */
export const forkCommand = (run: string, step: number): string => `acoer fork ${run} --at ${step}`;

/**
 * One sentence for each change.
 * @param run its folder
 * @param step the step to continue from
 * @param compared the files are compared with those of the checkpoint, so only their place can have changed
 * @throws BAD_CONFIG for a setting that the steps made so far depend on
 */
export function allowedChanges(
  before: Config,
  after: Config,
  run: string,
  step: number,
  compared: boolean,
): string[] {
  const changes = changesBetween(before, after);
  const free = (Object.keys(CHANGEABLE) as (keyof Config)[]).filter(
    (name) => compared || CHANGEABLE[name] !== 'place',
  );
  const refused = changes.filter(({ name }) => !free.includes(name) || !isMove(name, before, after));
  if (refused.length > 0) {
    const list = refused.map(({ text }) => text).join(', ');
    throw new AcoerError(
      'BAD_CONFIG',
      `A resumed run cannot change ${list}: the steps made so far depend on it. It can change ${free.join(', ')}. ` +
        `For other changes, continue in a new folder: ${forkCommand(run, step)} --set ...`,
    );
  }
  if (after.maxSteps < step) {
    throw new AcoerError(
      'BAD_CONFIG',
      `A resumed run cannot change maxSteps to ${after.maxSteps}: it has already made ${step} steps.`,
    );
  }
  return changes.map(({ name, text }) => `changed on resuming: ${text}${EFFECTS[CHANGEABLE[name]!]}`);
}
