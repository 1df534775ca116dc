/** Rollouts and groups with the fields that rewards use, and copies with one thing changed. */
import type { Group, Prompt, Rollout } from '../base/types';
import { CLASSES, type AnswerClass, type Composition, type Population, type Scene } from './types';

/** A value for each name. */
export const mapped = <Name extends string, T>(names: readonly Name[], of: (name: Name) => T) =>
  Object.fromEntries(names.map((name) => [name, of(name)])) as Record<Name, T>;

/** The same, one after the other. */
export async function mappedInTurn<Name extends string, T>(
  names: readonly Name[],
  of: (name: Name) => Promise<T>,
): Promise<Record<Name, T>> {
  const entries: [Name, T][] = [];
  for (const name of names) entries.push([name, await of(name)]);
  return Object.fromEntries(entries) as Record<Name, T>;
}

export const byClass = <T>(of: (kind: AnswerClass) => T) => mapped(CLASSES, of);

export const classOf = (rollout: Rollout): AnswerClass => (rollout.verdict.correct ? 'correct' : 'incorrect');

/** A prompt with only a name. */
export function namedPrompt(
  id: string,
  index: number,
  text = '',
  gold = '',
  level: string | null = null,
): Prompt {
  return {
    problem: { id, question: text, gold, level },
    index,
    text,
    ids: new Int32Array(),
    thinkOpened: false,
  };
}

/** A finished answer in the right format, with empty ids and log-probs. */
export function makeRollout(
  prompt: Prompt,
  sample: number,
  correct: boolean,
  thinkingTokens: number,
  totalTokens: number,
): Rollout {
  return {
    prompt,
    sample,
    ids: new Int32Array(),
    logprobs: new Float64Array(),
    entropies: new Float64Array(),
    finish: 'stop',
    text: '',
    thinkingTokens,
    totalTokens,
    thinkingClosed: true,
    verdict: { correct, status: correct ? 'correct' : 'incorrect', extracted: null },
    format: true,
  };
}

/** The answer with `offset` more (or fewer) thinking tokens. */
export const lengthened = (rollout: Rollout, offset: number): Rollout => ({
  ...rollout,
  thinkingTokens: rollout.thinkingTokens + offset,
  totalTokens: rollout.totalTokens + offset,
});

/** The scene with one answer of its own group replaced. */
export function withRollout(scene: Scene, index: number, rollout: Rollout): Scene {
  const group = scene.batch[scene.own]!;
  const changed = { ...group, rollouts: group.rollouts.with(index, rollout) };
  return { ...scene, batch: scene.batch.with(scene.own, changed) };
}

/** A batch of one group. */
export const sceneOf = (group: Group, step = 0): Scene => ({ batch: [group], own: 0, step });

/** Correct answers in the mixed group: nearest to the accuracy, but at least one of each class. */
export const mixedCorrectCount = ({ accuracy, groupSize }: Population): number =>
  Math.min(Math.max(Math.round(accuracy * groupSize), 1), groupSize - 1);

function correctCountOf(composition: Composition, population: Population): number {
  if (composition === 'allCorrect') return population.groupSize;
  return composition === 'allIncorrect' ? 0 : mixedCorrectCount(population);
}

/** A group of `population`: correct answers come first, each class shortest first. */
export function groupOf(population: Population, composition: Composition): Group {
  const prompt = namedPrompt('lab', 0);
  const correct = correctCountOf(composition, population);
  const counts = { correct, incorrect: population.groupSize - correct };
  const drawn = CLASSES.flatMap((kind) => {
    const lengths = population.lengths(kind, counts[kind]);
    return lengths.toSorted((a, b) => a - b).map((length) => ({ kind, length }));
  });
  const rollouts = drawn.map(({ kind, length }, sample) =>
    makeRollout(prompt, sample, kind === 'correct', length, length + population.answerTokens[kind]),
  );
  return { prompt, rollouts };
}
