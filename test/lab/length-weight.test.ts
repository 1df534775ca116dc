/** Against differences of advantages in numpy (scripts/fixtures/lab_weight.py), through the registry. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { balanceOf, holdOf, LAB_DEFAULTS, runLab, strengthOf } from '../../src/lab';
import { groupSpreads } from '../../src/lab/length-weight';
import { makeRollout, namedPrompt } from '../../src/lab/rollouts';
import { resolveReward } from '../../src/rewards';
import type { Group } from '../../src/base/types';

interface Row {
  reward: string;
  state: Record<string, unknown>;
  group: string;
  weight: number;
  factor: number;
  epsilon: number;
  hold: number;
  strength: number;
}

const FOLDER = join(__dirname, '..', 'fixtures', 'lab');
const read = (name: string): unknown => JSON.parse(readFileSync(join(FOLDER, name), 'utf8'));
const { rows } = read('length-weight.json') as { rows: Row[] };
const { maxLength, answerTokens, groups } = read('lab.json') as {
  maxLength: number;
  answerTokens: number;
  groups: Record<string, { correct: number[]; lengths: number[] }>;
};

function groupNamed(name: string): Group {
  const { correct, lengths } = groups[name]!;
  const prompt = namedPrompt(name, 0);
  const rollouts = lengths.map((length, i) =>
    makeRollout(prompt, i, correct[i] === 1, length, length + answerTokens),
  );
  return { prompt, rollouts };
}

test.each(
  rows.map((row) => [`${row.reward} ${row.weight}, ${row.group}, epsilon ${row.epsilon}`, row] as const),
)('%s', async (_, row) => {
  const reward = resolveReward(row.reward, {});
  const initial = reward.initialState({ maxLength }) as object | null;
  const state = initial === null ? null : { ...initial, ...row.state };
  const settings = { ...LAB_DEFAULTS, maxLength };
  const [spread] = await groupSpreads({ reward, state, settings }, groupNamed(row.group), [row.factor]);
  const scaling = { scale: 'group', epsilon: row.epsilon } as const;
  // The error of the fixture's difference quotient is the square of its step, 1e-8.
  expect(Math.abs(holdOf(spread!, scaling) - row.hold)).toBeLessThan(1e-7);
  expect(Math.abs(strengthOf(spread!, scaling) - row.strength)).toBeLessThan(1e-12);
});

describe('in the report', () => {
  test('a reward with an alpha shows it from smallest to largest, others show their own weight', async () => {
    const { rewards } = await runLab({ rewards: ['acc', 'acoer', 'beta0'] });
    const [acc, acoer, beta0] = rewards.map(({ lengthWeights }) => lengthWeights);
    expect(acc).toEqual([]);
    expect(acoer!.map(({ alpha }) => alpha)).toEqual([0.01, 0.02, 0.1, 0.5]);
    expect(beta0).toMatchObject([{ factor: 1, alpha: null }]);
  });

  test('without epsilon alpha cancels among correct answers alone, and such a group is as strong as a mixed one', async () => {
    const { rewards } = await runLab({ rewards: ['acoer'] });
    for (const weight of rewards[0]!.lengthWeights) {
      const none = { scale: 'group', epsilon: 0 } as const;
      expect(holdOf(weight.allCorrect, none)).toBeCloseTo(0, 12);
      expect(balanceOf(weight, none)).toBeCloseTo(1, 12);
      expect(holdOf(weight.mixed, none)).toBeGreaterThan(0.7);
      // Without a division nothing cancels.
      expect(holdOf(weight.allCorrect, { scale: 'none', epsilon: 0 })).toBe(1);
    }
  });
});
