/** Against torch autograd and exact fractions (scripts/fixtures/lab.py), through the registry. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compositionRow, LAB_DEFAULTS } from '../../src/lab';
import { answersOf } from '../../src/lab/pressure';
import { makeRollout, namedPrompt, sceneOf } from '../../src/lab/rollouts';
import type { CompositionRow, Scene } from '../../src/lab';
import { resolveReward } from '../../src/rewards';

interface Case {
  reward: string;
  params: Record<string, unknown>;
  state: Record<string, unknown>;
  group: string;
  epsilon: number;
  rewards: number[];
  advantages: number[];
  rewardSlopes: number[];
  advantageSlopes: number[];
}

interface Fixture {
  maxLength: number;
  answerTokens: number;
  groups: Record<string, { correct: number[]; lengths: number[] }>;
  cases: Case[];
  chances: (CompositionRow & { groupSize: number })[];
}

const fixture = JSON.parse(
  readFileSync(join(__dirname, '..', 'fixtures', 'lab', 'lab.json'), 'utf8'),
) as Fixture;

function sceneFor({ group }: Case): Scene {
  const { correct, lengths } = fixture.groups[group]!;
  const prompt = namedPrompt(group, 0);
  const rollouts = lengths.map((length, i) =>
    makeRollout(prompt, i, correct[i] === 1, length, length + fixture.answerTokens),
  );
  return sceneOf({ prompt, rollouts });
}

async function measured(c: Case) {
  const { maxLength } = fixture;
  const reward = resolveReward(c.reward, c.params);
  const initial = reward.initialState({ maxLength }) as object | null;
  const state = initial === null ? null : { ...initial, ...c.state };
  const settings = { ...LAB_DEFAULTS, maxLength, epsilon: c.epsilon, formatWeight: 0 };
  return (await answersOf({ reward, state, settings }, sceneFor(c))).answers;
}

/** A slope per token below this is rounding on either side. */
const ROUNDING = 1e-14;

/** Largest difference, relative to the largest expected value. */
function error(found: readonly number[], expected: readonly number[]): number {
  const scale = Math.max(...expected.map(Math.abs));
  const difference = Math.max(...expected.map((value, i) => Math.abs(value - found[i]!)));
  return difference < ROUNDING ? 0 : difference / scale;
}

describe('rewards, advantages and their slopes in length equal torch', () => {
  test.each(fixture.cases.map((c) => [`${c.reward}, ${c.group}, epsilon ${c.epsilon}`, c] as const))(
    '%s',
    async (_, c) => {
      const answers = await measured(c);
      const of = (value: (answer: (typeof answers)[number]) => number) => answers.map(value);
      // Float64 on both sides; without epsilon, rounding errors are multiplied by 1 / std of the rewards, 1e6
      // for recut.
      expect(
        error(
          of((a) => a.reward),
          c.rewards,
        ),
      ).toBeLessThan(1e-12);
      expect(
        error(
          of((a) => a.advantage),
          c.advantages,
        ),
      ).toBeLessThan(1e-9);
      // Errors of a difference quotient: truncation (h / spread)^4, rounding 1e-16 / h relative to the slope.
      expect(
        error(
          of((a) => a.rewardSlope),
          c.rewardSlopes,
        ),
      ).toBeLessThan(1e-6);
      expect(
        error(
          of((a) => a.advantageSlope),
          c.advantageSlopes,
        ),
      ).toBeLessThan(1e-6);
    },
  );
});

describe('probabilities of groups', () => {
  test.each(fixture.chances.map((row) => [row.accuracy, row.groupSize, row] as const))(
    'accuracy %d, groups of %d equal exact fractions',
    (accuracy, groupSize, expected) => {
      const found = compositionRow(accuracy, groupSize);
      for (const name of ['allCorrect', 'allIncorrect', 'mixed', 'mostlyIncorrect', 'C'] as const) {
        // For p near 1, 1 - p loses digits, 16 times over.
        expect(Math.abs(found[name] / expected[name] - 1)).toBeLessThan(1e-12);
      }
    },
  );

  test("appendix F's printed figures", () => {
    const moderate = compositionRow(0.7, 16);
    expect(moderate.allCorrect.toFixed(4)).toBe('0.0033');
    expect(moderate.allIncorrect.toFixed(4)).toBe('0.0000');
    expect((100 * moderate.mixed).toFixed(1)).toBe('99.7');
    expect(moderate.C.toFixed(3)).toBe('0.458');
    expect(compositionRow(0.8, 16).C.toFixed(3)).toBe('0.400');
    const hard = compositionRow(0.2, 16);
    expect(hard.allIncorrect.toFixed(3)).toBe('0.028');
    expect((100 * hard.allIncorrect).toFixed(1)).toBe('2.8');
  });

  test('rejects an invalid accuracy', () => {
    expect(() => compositionRow(1.2, 16)).toThrow(/accuracy from 0 to 1/);
    expect(() => compositionRow(0.5, 1)).toThrow(/at least 2/);
  });
});
