/** Changes to what a run trusts that its user has accepted, as its checkpoints record them. */
import { join } from 'node:path';
import { z } from 'zod';
import { isRecord } from '../base/json';
import { STATE } from './checkpoint';
import type { RunDirectory } from './directory';

export const ACCEPTED_CHANGE = z.object({
  what: z.literal('reward'),
  /** Number of steps made before the change. */
  step: z.int().min(0),
  /** The reward files that changed, by the names of their rewards. */
  files: z.array(z.string()),
});

export type AcceptedChange = z.output<typeof ACCEPTED_CHANGE>;

/** In the order they were accepted, up to the newest checkpoint. @throws BAD_INPUT for one that is damaged */
export function readAccepted(run: RunDirectory): AcceptedChange[] {
  const newest = run.checkpointSteps().at(-1);
  if (newest === undefined) return [];
  const state = run.readJson(join(run.checkpoint(newest), STATE));
  const accepted = isRecord(state) && Array.isArray(state['accepted']) ? state['accepted'] : [];
  return accepted.flatMap((change) => ACCEPTED_CHANGE.safeParse(change).data ?? []);
}
