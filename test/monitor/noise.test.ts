/**
 * The noise of synthetic runs, whose variance is known: rho + (1 - rho) / completions times m (1 - m), rho =
 * 1 / (a + b + 1).
 */
import type { KnownMetrics } from '../../src/base/metric-names';
import { noAccuracy, withAccuracy } from '../../src/monitor/accuracy';
import { noiseOf } from '../../src/monitor/noise';
import { syntheticRun } from '../helpers/synthetic-runs';

type Keep = (line: KnownMetrics) => KnownMetrics;
const whole: Keep = (line) => line;

interface World {
  solve: readonly [number, number];
  prompts: number;
  completions: number;
}

/**
 * The dispersion of accuracy, as a mean over ten runs of 600 groups, with the degrees of freedom of the last.
 */
function dispersionOf({ solve, prompts, completions }: World, keep = whole) {
  let sum = 0;
  let freedom = 0;
  for (let seed = 0; seed < 10; seed++) {
    const shape = { prompts, completions };
    let record = noAccuracy();
    for (const line of syntheticRun({
      seed: 9400 + seed,
      solve,
      shape,
      steps: 600 / prompts,
      thinking: [1, 1],
    }))
      record = withAccuracy(record, keep(line), prompts);
    const noise = noiseOf(record.noise);
    sum += noise.dispersions[0]!;
    freedom = noise.freedom;
  }
  return { dispersion: sum / 10, freedom };
}

const trueDispersion = ({ solve: [a, b], completions }: World) => {
  const rho = 1 / (a + b + 1);
  return rho + (1 - rho) / completions;
};

const worlds: World[] = [
  { solve: [0.9, 0.3], prompts: 8, completions: 16 },
  { solve: [0.9, 0.3], prompts: 8, completions: 4 },
  { solve: [6, 2], prompts: 8, completions: 16 },
  { solve: [0.5, 0.5], prompts: 1, completions: 16 },
];

test.each(worlds)('the noise of $prompts x $completions, solve rates of $solve', (world) => {
  const { dispersion, freedom } = dispersionOf(world);
  expect(dispersion / trueDispersion(world)).toBeGreaterThan(0.93);
  expect(dispersion / trueDispersion(world)).toBeLessThan(1.2);
  expect(freedom).toBeGreaterThan(200);
});

describe('metrics with less information', () => {
  const world = worlds[2]!;

  test('rounded to four digits they give the same', () => {
    const rounded: Keep = (line) =>
      Object.fromEntries(Object.entries(line).map(([name, value]) => [name, Number(value!.toFixed(4))]));
    expect(dispersionOf(world, rounded).dispersion).toBeCloseTo(dispersionOf(world).dispersion, 3);
  });

  test('without group_std, or with accuracies that are no shares of a group, only batches count', () => {
    const without: Keep = ({ 'accuracy/group_std': _, ...line }) => line;
    const blurred: Keep = (line) => ({ ...line, 'accuracy/mean': line['accuracy/mean']! ** 1.1 });
    for (const keep of [without, blurred]) expect(dispersionOf(world, keep).freedom).toBeLessThan(80);
  });

  test('without the shares of all-wrong and all-correct groups there is never less noise', () => {
    for (const name of ['accuracy/groups_all_wrong', 'accuracy/groups_all_correct'] as const) {
      const without: Keep = (line) => ({ ...line, [name]: undefined });
      expect(dispersionOf(world, without).dispersion).toBeGreaterThan(0.93 * trueDispersion(world));
    }
  });
});

test('batches that vary more than their groups explain are noisier', () => {
  let record = noAccuracy();
  const line = {
    'accuracy/groups_all_correct': 0,
    'accuracy/groups_all_wrong': 0,
    'accuracy/group_std': 0.5,
  };
  for (let step = 0; step < 1000; step++)
    record = withAccuracy(record, { ...line, 'accuracy/mean': step % 2 === 0 ? 0.5 : 0.75 }, 8);
  // If every group has both correct and wrong answers, its variance is at most 1/4 of m (1 - m); the batches
  // show far more.
  expect(noiseOf(record.noise).dispersions[0]).toBeGreaterThan(0.6);
});
