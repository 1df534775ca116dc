/** What a reward's state does in training: where it settles, and whether it yields when accuracy falls. */
import { mean } from '../base/statistics';
import type { Group } from '../base/types';
import { answersOf } from './pressure';
import { groupOf } from './rollouts';
import { observeGroups } from './scoring';
import type { Adaptation, Study, Subject } from './types';

/** Batches before and after accuracy halves; enough for the controllers' warm-up and windows. */
const STEPS_BEFORE = 300;
const STEPS_AFTER = 100;

/** A state counts as a guard if at most this fraction of the pressure is left. */
export const GUARDED_RATIO = 0.25;

type Batch = readonly Group[];

async function observed(
  subject: Subject,
  state: unknown,
  batch: Batch,
  from: number,
  count: number,
): Promise<unknown> {
  let next = state;
  for (let step = from; step < from + count; step++) next = await observeGroups(subject, next, batch, step);
  return next;
}

/** Mean |d(reward)/d(length)| of the correct answers of the first group. */
async function pressureOnCorrect(subject: Subject, state: unknown, batch: Batch): Promise<number> {
  const scene = { batch, own: 0, step: STEPS_BEFORE + STEPS_AFTER };
  const { answers } = await answersOf({ ...subject, state }, scene);
  return mean(answers.filter(({ correct }) => correct).map(({ rewardSlope }) => Math.abs(rewardSlope)));
}

/**
 * Shows the state batches of two mixed groups, then either continues or makes the second group all wrong,
 * which halves the accuracy. The pressure is measured on the first group, which never changes, so any
 * difference comes from the state and the rest of the batch.
 */
export async function adaptationOf(study: Study): Promise<{ adaptation: Adaptation; settled: unknown }> {
  const { population } = study;
  const mixed = groupOf(population, 'mixed');
  const steady: Batch = [mixed, mixed];
  const worse: Batch = [mixed, groupOf(population, 'allIncorrect')];
  const settled = await observed(study, study.state, steady, 0, STEPS_BEFORE);
  const pressureAfter = async (batch: Batch): Promise<number> =>
    pressureOnCorrect(study, await observed(study, settled, batch, STEPS_BEFORE, STEPS_AFTER), batch);
  const held = await pressureAfter(steady);
  const fallen = await pressureAfter(worse);
  return { adaptation: { held, fallen, ratio: held > 0 ? fallen / held : null }, settled };
}
