/** Batches of recorded answers, and what a reward gives them. */
import { badInput } from '../base/errors';
import { groupBy, type NonEmpty } from '../base/group-by';
import { mean } from '../base/statistics';
import type { BoundReward } from '../rewards/types';
import type { Group } from '../base/types';
import { answersOf } from './pressure';
import { byClass, makeRollout, mapped, namedPrompt } from './rollouts';
import { observeGroups } from './scoring';
import {
  COMPOSITIONS,
  type Composition,
  type LabAnswer,
  type LabSettings,
  type RecordedAnswer,
  type RecordedReward,
  type RecordedSummary,
} from './types';

/** One completion of a completions table, or one line of the input of `acoer reward`. */
export interface RecordedCompletion {
  /** The run or file; steps and groups of different sources are kept apart. Default: one source for all. */
  source?: string;
  /** Number of updates before its batch. */
  step: number;
  /** Name of the group within the step. */
  group: string;
  correct: boolean;
  thinkingTokens: number;
  totalTokens: number;
  format: boolean;
  thinkingClosed: boolean;
  /** Thinking tokens in blocks after the first. Default 0. */
  laterThinkingTokens?: number;
  /** For rewards that read text; only completions tables have it. */
  text?: string;
  prompt?: string;
  problemId?: string;
  gold?: string | null;
  level?: string | null;
  extracted?: string | null;
  /** Default: `length` at the limit, else `stop`. */
  finish?: 'stop' | 'length' | 'cancelled';
}

export interface RecordedBatch {
  step: number;
  groups: Group[];
  /** Names of the groups, as recorded. */
  names: string[];
}

function groupFrom(completions: NonEmpty<RecordedCompletion>, index: number, maxLength: number): Group {
  const { group, prompt: text, problemId, gold, level } = completions[0];
  const prompt = namedPrompt(problemId ?? group, index, text, gold ?? undefined, level);
  const rollouts = completions.map((completion, sample) => {
    const { correct, thinkingTokens, totalTokens, thinkingClosed, format } = completion;
    const { laterThinkingTokens = 0, extracted = null, text: answer = '' } = completion;
    const made = makeRollout(prompt, sample, correct, thinkingTokens, totalTokens);
    const finish = completion.finish ?? (totalTokens >= maxLength ? 'length' : 'stop');
    const verdict = { ...made.verdict, extracted };
    return { ...made, thinkingClosed, laterThinkingTokens, format, finish, verdict, text: answer };
  });
  return { prompt, rollouts };
}

/** Batches in step order, groups in order of first appearance. @throws BAD_INPUT */
export function recordedBatches(
  completions: readonly RecordedCompletion[],
  { maxLength }: Pick<LabSettings, 'maxLength'>,
): RecordedBatch[] {
  const tooLong = completions.find(({ totalTokens }) => totalTokens > maxLength);
  if (tooLong !== undefined) {
    const { step, group, totalTokens } = tooLong;
    throw badInput(
      `A completion of ${totalTokens} tokens (step ${step}, group ${group}) is longer than the limit of ${maxLength}; pass the run's limit with --max-length.`,
    );
  }
  const batches = groupBy(completions, ({ source = '', step }) => JSON.stringify([source, step]));
  // The sort is stable, so sources stay in order of first appearance.
  return [...batches.values()].map((own) => batchFrom(own, maxLength)).sort((a, b) => a.step - b.step);
}

function batchFrom(completions: NonEmpty<RecordedCompletion>, maxLength: number): RecordedBatch {
  const [{ step }] = completions;
  const byName = groupBy(completions, ({ group }) => group);
  const all = [...byName.values()];
  const lonely = all.find((members) => members.length < 2);
  if (lonely === undefined) {
    const groups = all.map((members, index) => groupFrom(members, index, maxLength));
    return { step, groups, names: [...byName.keys()] };
  }
  throw badInput(
    `Group ${lonely[0].group} of step ${step} has one completion; an advantage needs at least two.`,
  );
}

function compositionOf({ rollouts }: Group): Composition {
  const correct = rollouts.filter((rollout) => rollout.verdict.correct).length;
  if (correct === rollouts.length) return 'allCorrect';
  return correct === 0 ? 'allIncorrect' : 'mixed';
}

export function recordedSummary(batches: readonly RecordedBatch[]): RecordedSummary {
  const groups = batches.flatMap((batch) => batch.groups);
  const share = (wanted: Composition) =>
    groups.filter((group) => compositionOf(group) === wanted).length / groups.length;
  return {
    steps: batches.length,
    groups: groups.length,
    answers: groups.reduce((count, group) => count + group.rollouts.length, 0),
    shares: mapped(COMPOSITIONS, share),
  };
}

interface GroupAnswers {
  composition: Composition;
  zeroVariance: boolean;
  answers: RecordedAnswer[];
}

/**
 * Scores every recorded batch, in order.
 *
 * @param moves whether the state advances over the batches as in training; if not, every batch sees `state`
 * @returns the rewards, and the state after the last batch
 */
export async function scoreRecorded(
  reward: BoundReward,
  state: unknown,
  batches: readonly RecordedBatch[],
  settings: LabSettings,
  moves: boolean,
): Promise<{ recorded: RecordedReward; state: unknown }> {
  const scored: GroupAnswers[] = [];
  let current = state;
  for (const { step, groups, names } of batches) {
    for (const [own, group] of groups.entries()) {
      const scene = { batch: groups, own, step };
      const { answers, zeroVariance } = await answersOf({ reward, state: current, settings }, scene);
      const named = answers.map((answer) => ({ step, group: names[own]!, ...answer }));
      scored.push({ composition: compositionOf(group), zeroVariance, answers: named });
    }
    if (moves) current = await observeGroups({ reward, state, settings }, current, groups, step);
  }
  return { recorded: recordedReward(scored), state: current };
}

function recordedReward(groups: readonly GroupAnswers[]): RecordedReward {
  const all = groups.flatMap(({ answers }) => answers);
  const slopes = (wanted: Composition) =>
    meansOf(
      groups.filter(({ composition }) => composition === wanted).flatMap(({ answers }) => answers),
      ({ advantageSlope }) => advantageSlope,
    );
  return {
    reward: meansOf(all, ({ reward }) => reward),
    advantage: meansOf(all, ({ advantage }) => advantage),
    advantageSlope: mapped(COMPOSITIONS, slopes),
    fracZeroStd: groups.filter(({ zeroVariance }) => zeroVariance).length / groups.length,
    answers: all,
  };
}

const meansOf = (answers: readonly LabAnswer[], value: (answer: LabAnswer) => number) =>
  byClass((kind): number | null => {
    const values = answers.filter(({ correct }) => correct === (kind === 'correct')).map(value);
    return values.length === 0 ? null : mean(values);
  });

/** Lengths by class over all batches. */
export const recordedRollouts = (batches: readonly RecordedBatch[]) =>
  batches.flatMap(({ groups }) => groups.flatMap((group) => group.rollouts));
