/**
 * h is the length of the prompt's shortest correct answer in earlier batches; an h of 0 counts as 1, and f
 * is 0 without a history. The paper leaves w (`weight`) free.
 */
import type { Group } from '../base/types';
import { defineReward, nonNegative, sumOf } from './define';
import { correctness, correctOf } from './groups';
import { minimum } from '../base/statistics';

interface State {
  /** Shortest correct length so far, by problem id. */
  shortest: Readonly<Record<string, number>>;
}

const keyOf = ({ prompt }: Group) => prompt.problem.id;

export const hapo = defineReward({
  name: 'hapo',
  summary: "Length against the prompt's shortest correct answer in earlier batches (HAPO).",
  formula: 'c + w * max(f, -clip) if correct, w * min(0, f) if wrong; f = cos(pi/2 * min(l/h, 2))',
  source: 'arXiv 2505.11225',
  taxonomy: { scope: 'history', correct: 'shorter', incorrect: 'shorter', bounded: false, adaptive: true },
  length: 'total',
  parameters: { weight: nonNegative().default(1), clip: nonNegative().max(1).default(0.7) },
  reward: ({ weight, clip }, { l }) => ({
    initialState: (): State => ({ shortest: {} }),
    observe(state: State, { batch }): State {
      const shortest = { ...state.shortest };
      for (const group of batch) {
        const key = keyOf(group);
        const before = Object.hasOwn(shortest, key) ? [shortest[key]!] : [];
        const found = [...before, ...correctOf(group).map(l)];
        if (found.length > 0) shortest[key] = minimum(found);
      }
      return { shortest };
    },
    score(rollout, { group, state: { shortest } }) {
      const c = correctness(rollout);
      const key = keyOf(group);
      if (!Object.hasOwn(shortest, key)) return sumOf(c, 0);
      const h = Math.max(1, shortest[key]!);
      const f = Math.cos((Math.PI / 2) * Math.min(l(rollout) / h, 2));
      return sumOf(c, weight * (c === 1 ? Math.max(f, -clip) : Math.min(0, f)));
    },
    metrics: ({ shortest }) => ({ 'hapo/prompts_with_history': Object.keys(shortest).length }),
    snapshot: ({ shortest }) => ({ promptsWithHistory: Object.keys(shortest).length }),
  }),
});
