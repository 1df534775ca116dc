/** Every reward against values that `scripts/fixtures/rewards.py` computes from the formulas. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { listRewards, resolveReward } from '../../src/rewards';
import type { Group } from '../../src/base/types';
import { loopCases } from '../helpers/loop-fixture';
import { describedGroup, type Described } from './rollouts';

interface Golden {
  maxLength: number;
  batches: { problem: string; completions: Described[] }[][];
  cases: { reward: string; parameters: Record<string, unknown>; values: number[][] }[];
}

const golden = JSON.parse(
  readFileSync(resolve(__dirname, '../fixtures/rewards/golden.json'), 'utf8'),
) as Golden;
const { maxLength } = golden;
const batches = golden.batches.map((batch): Group[] =>
  batch.map(({ problem, completions }) => describedGroup(problem, completions, maxLength)),
);

test('every built-in reward has golden values (acoer from its authors’ code)', () => {
  const names = new Set(golden.cases.map(({ reward }) => reward));
  const missing = listRewards().filter(({ name }) => !names.has(name));
  expect(missing.map(({ name }) => name)).toEqual(['acoer']);
});

test.each(golden.cases.map((c) => [`${c.reward} ${JSON.stringify(c.parameters)}`, c] as const))(
  '%s',
  async (_, { reward, parameters, values }) => {
    const bound = resolveReward(reward, parameters);
    let state = bound.initialState({ maxLength });
    for (const [step, batch] of batches.entries()) {
      const scores = await Promise.all(
        batch.flatMap((group) =>
          group.rollouts.map(async (rollout) =>
            bound.score(rollout, { step, maxLength, group, batch, state }),
          ),
        ),
      );
      scores.forEach(({ value }, i) => {
        // Float64 on both sides: only the order of operations differs.
        const expected = values[step]![i]!;
        expect(Math.abs(value - expected)).toBeLessThanOrEqual(1e-12 * Math.max(1, Math.abs(expected)));
      });
      state = await bound.observe(state, { step, maxLength, batch });
    }
  },
);

interface TrlCase {
  reward: string;
  correct?: boolean;
  lengths: number[];
  values: number[];
}

/** TRL's get_cosine_scaled_reward, expressed in our parameters. */
const TRL_COSINE = {
  correctShort: 1,
  correctLong: 0.5,
  wrongShort: -1,
  wrongLong: -0.5,
  punishOverLength: false,
};

test.each(loopCases<TrlCase>('length-rewards'))(
  'TRL’s own $reward (correct: $correct)',
  async ({ reward, correct = true, lengths, values }) => {
    const bound = resolveReward(reward, reward === 'cosine' ? TRL_COSINE : {});
    for (const [i, total] of lengths.entries()) {
      const described = { correct, thinking: 0, total, closed: true, format: true };
      const group = describedGroup('p', [described], 100);
      const view = { step: 0, maxLength: 100, group, batch: [group], state: null };
      expect((await bound.score(group.rollouts[0]!, view)).value).toBeCloseTo(values[i]!, 12);
    }
  },
);
