/** Changes to what a run trusts that its user has accepted, as its checkpoints record them. */
import { join } from 'node:path';
import { isRecord } from '../base/json';
import { STATE } from './checkpoint';
import type { RunDirectory } from './directory';

export interface AcceptedChange {
  what: 'reward';
  /** Number of steps made before the change. */
  step: number;
  /** The reward files that changed, by the names of their rewards. */
  files: string[];
}

const isAccepted = (value: unknown): value is AcceptedChange =>
  isRecord(value) &&
  value['what'] === 'reward' &&
  Number.isSafeInteger(value['step']) &&
  Array.isArray(value['files']) &&
  value['files'].every((name) => typeof name === 'string');

/** In the order they were accepted, up to the newest checkpoint. @throws BAD_INPUT for one that is damaged */
export function readAccepted(run: RunDirectory): AcceptedChange[] {
  const newest = run.checkpointSteps().at(-1);
  if (newest === undefined) return [];
  const state = run.readJson(join(run.checkpoint(newest), STATE));
  const accepted = isRecord(state) ? state['accepted'] : [];
  return Array.isArray(accepted) ? accepted.filter(isAccepted) : [];
}
