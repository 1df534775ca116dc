/** Resuming a run: which settings may differ from those its steps were made with. */
import { badUsage } from '../base/errors';

const EFFECTS = {
  nothing: '',
  rounding: ' (later numbers may differ by rounding)',
  schedule: ' (the learning rate of later steps follows the new length)',
  place: ' (the same files elsewhere)',
  prompts: ' (later numbers are no longer those of an uninterrupted run)',
} as const;

export type Effect = keyof typeof EFFECTS;

export interface Changeable<Settings> {
  /** Settings that a resumed run may change, and the effect. */
  effects: Readonly<Partial<Record<keyof Settings, Effect>>>;
  /** Settings that may name a file or not: a file may move, but nothing else can become or replace one. */
  isFile: Readonly<Partial<Record<keyof Settings, (config: Settings) => boolean>>>;
  /** How to make other changes. @param step to continue from */
  otherwise: (run: string, step: number) => string;
}

/** Of the settings that every kind of run has. */
export const COMMON_EFFECTS = {
  maxSteps: 'schedule',
  saveSteps: 'nothing',
  keepCheckpoints: 'nothing',
  evalSteps: 'nothing',
  name: 'nothing',
  tensorboard: 'nothing',
  csv: 'nothing',
  sinks: 'nothing',
  sinkTimeoutMs: 'nothing',
  notify: 'nothing',
  watchdogMs: 'nothing',
  watchdogPhaseMs: 'nothing',
  onHang: 'nothing',
  microBatchTokens: 'rounding',
  memoryLimitBytes: 'rounding',
  threads: 'rounding',
  device: 'rounding',
  model: 'place',
  adapter: 'place',
} as const satisfies Record<string, Effect>;

interface Change<Settings> {
  name: keyof Settings;
  text: string;
}

function isMove<Settings>(
  { isFile }: Changeable<Settings>,
  name: keyof Settings,
  before: Settings,
  after: Settings,
): boolean {
  const file = isFile[name];
  return file === undefined || (file(before) && file(after));
}

function changesBetween<Settings extends object>(before: Settings, after: Settings): Change<Settings>[] {
  const names = Object.keys(after) as (keyof Settings & string)[];
  return names
    .map((name) => ({ name, from: JSON.stringify(before[name]), to: JSON.stringify(after[name]) }))
    .filter(({ from, to }) => from !== to)
    .map(({ name, from, to }) => ({ name, text: `${name} ${from} -> ${to}` }));
}

/** Whether what was made under `before` and is not used up is what `after` would make. */
export function sameSteps<Settings extends object>(
  changeable: Changeable<Settings>,
  before: Settings,
  after: Settings,
): boolean {
  const changes = changesBetween(before, after);
  if (!changes.every(({ name }) => isMove(changeable, name, before, after))) return false;
  const effects = changes.map(({ name }) => changeable.effects[name]);
  return effects.every((effect) => effect !== undefined && effect !== 'prompts');
}

/**
 * One sentence for each change.
 * @param run its folder
 * @param step the step to continue from
 * @param compared the files are compared with those of the checkpoint, so only their place can have changed
 * @throws BAD_CONFIG for a setting that the steps made so far depend on
 */
export function allowedChanges<Settings extends { maxSteps: number | null }>(
  changeable: Changeable<Settings>,
  before: Settings,
  after: Settings,
  run: string,
  step: number,
  compared: boolean,
): string[] {
  const { effects, otherwise } = changeable;
  const changes = changesBetween(before, after);
  const free = (Object.keys(effects) as (keyof Settings & string)[]).filter(
    (name) => compared || effects[name] !== 'place',
  );
  const refused = changes.filter(
    ({ name }) => !(free as (keyof Settings)[]).includes(name) || !isMove(changeable, name, before, after),
  );
  if (refused.length > 0) {
    const list = refused.map(({ text }) => text).join(', ');
    throw badUsage(
      `A resumed run cannot change ${list}: the steps made so far depend on it. It can change ${free.join(', ')}. For other changes, ${otherwise(run, step)}`,
    );
  }
  if (after.maxSteps !== null && after.maxSteps < step) {
    throw badUsage(
      `A resumed run cannot change maxSteps to ${after.maxSteps}: it has already made ${step} steps.`,
    );
  }
  return changes.map(({ name, text }) => `changed on resuming: ${text}${EFFECTS[effects[name]!]}`);
}
