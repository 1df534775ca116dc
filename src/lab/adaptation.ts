/** Whether a reward's own state takes the pressure back when accuracy falls: the third mechanism of ACOER. */
import type { Group } from '../types';
import { answersOf } from './pressure';
import { groupOf, mixedCorrectCount, sceneOf } from './rollouts';
import { mean } from '../grpo/statistics';
import type { Adaptation, Population, Subject } from './types';

/** Batches seen before accuracy halves, enough for the controllers' warm-up and windows, and after. */
const STEPS_BEFORE = 300;
const STEPS_AFTER = 100;

/** At most this share of the pressure may be left for a state to count as a guard. */
export const GUARDED_RATIO = 0.25;

async function observed(
  subject: Subject,
  state: unknown,
  group: Group,
  from: number,
  count: number,
): Promise<unknown> {
  const { maxLength } = subject.settings;
  let next = state;
  for (let step = from; step < from + count; step++) {
    next = await subject.reward.observe(next, { step, maxLength, batch: [group] });
  }
  return next;
}

async function pressureOnCorrect(subject: Subject, state: unknown, group: Group): Promise<number> {
  const step = STEPS_BEFORE + STEPS_AFTER;
  const { answers } = await answersOf({ ...subject, state }, sceneOf(group, step));
  return mean(answers.filter(({ correct }) => correct).map(({ rewardSlope }) => Math.abs(rewardSlope)));
}

/** Shows the state mixed groups of one accuracy, then either goes on or halves the accuracy. */
export async function adaptationOf(subject: Subject, population: Population): Promise<Adaptation> {
  const count = mixedCorrectCount(population);
  const steady = groupOf(population, count);
  const worse = groupOf(population, Math.max(1, Math.floor(count / 2)));
  const before = await observed(subject, subject.state, steady, 0, STEPS_BEFORE);
  const after = (group: Group) => observed(subject, before, group, STEPS_BEFORE, STEPS_AFTER);
  const held = await pressureOnCorrect(subject, await after(steady), steady);
  const fallen = await pressureOnCorrect(subject, await after(worse), worse);
  return { held, fallen, ratio: held > 0 ? fallen / held : null };
}
