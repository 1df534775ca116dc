/** A small part of scripts/studies/guard-simulation.mjs, on its own runs. */
import {
  bareContext,
  initialMonitorState,
  monitorSettings,
  observe,
  type HealthChange,
} from '../../src/monitor';
import type { KnownMetrics } from '../../src/base/metric-names';
import {
  beta,
  courseRun,
  FALLS,
  syntheticRun,
  uniform,
  type Course,
  type Options,
  type Solve,
} from '../helpers/synthetic-runs';

const settings = monitorSettings({ preset: 'default' });

function changesOf(
  options: Options,
  keep: (line: KnownMetrics) => KnownMetrics = (line) => line,
): HealthChange[] {
  const context = bareContext(options.shape.prompts);
  const changes: HealthChange[] = [];
  let state = initialMonitorState();
  for (const line of syntheticRun(options)) {
    const seen = observe(state, keep(line), settings, context);
    state = seen.state;
    if (seen.change !== null) changes.push(seen.change);
  }
  return changes;
}

const one = { prompts: 1, completions: 16 };
const eight = { prompts: 8, completions: 4 };
const U: Solve = [0.9, 0.3];

test('the synthetic solve rates have the means of their distributions, before and after a fall', () => {
  const random = uniform(1);
  const mean = (draw: () => number) => Array.from({ length: 20_000 }, draw).reduce((a, b) => a + b) / 20_000;
  expect(mean(() => beta(random, 0.9, 0.3))).toBeCloseTo(0.75, 2);
  expect(mean(() => beta(random, 6, 2))).toBeCloseTo(0.75, 2);
  for (const fall of Object.values(FALLS)) {
    expect(mean(() => fall(random, U, 0.1))).toBeCloseTo(0.65, 1.7);
  }
});

test.each([
  ['one prompt x 16', one, 1200],
  ['8 prompts x 4', eight, 400],
])('constant accuracy is not a collapse, %s', (_, shape, steps) => {
  const called = Array.from({ length: 20 }, (__, seed) =>
    changesOf({
      seed: 9000 + seed,
      solve: U,
      shape,
      steps,
      thinking: [0.2, (steps * shape.prompts * 2) / 3],
    }),
  );
  expect(called.filter((changes) => changes.some(({ to }) => to === 'collapsed'))).toHaveLength(0);
  expect(called.filter((changes) => changes.length > 0).length).toBeLessThanOrEqual(2);
});

test.each([
  ['one prompt x 16, a step', one, 0],
  ['8 prompts x 4, a ramp of 200 groups', eight, 200],
])('a fall of 20 points at short thinking is found, %s', (_, shape, ramp) => {
  const after = 1200;
  const steps = Math.ceil((after + ramp + 150) / shape.prompts);
  const found = Array.from({ length: 10 }, (__, seed) => {
    const fall = { kind: 'spread', points: 0.2, after, ramp } as const;
    const changes = changesOf({ seed: 9100 + seed, solve: U, shape, steps, thinking: [0.25, 600], fall });
    return changes.filter(({ to }) => to === 'collapsed').map(({ step }) => step * shape.prompts);
  });
  expect(found.filter(([first]) => first !== undefined && first > after).length).toBeGreaterThanOrEqual(9);
});

describe('wrong answers that think longer, so that a fall of accuracy raises the mean length', () => {
  /** Thinking of right answers falls to 30% of the base over the first half. */
  const shorter = (steps: number) => (step: number) => 3000 * (1 - 0.7 * Math.min(1, step / (0.5 * steps)));
  const dip = (from: number, to: number, low: number) => (step: number) =>
    step >= from && step < to ? low : 0.8;

  /** Steps of the first collapse in each of ten runs; null: none. */
  const firstCollapses = (course: Omit<Course, 'seed'>): (number | null)[] =>
    Array.from({ length: 10 }, (_, i) => {
      let state = initialMonitorState();
      for (const line of courseRun({ ...course, seed: 47_000 + 101 * i })) {
        const seen = observe(state, line, settings, bareContext(course.shape.prompts));
        state = seen.state;
        if (seen.change?.to === 'collapsed') return seen.change.step;
      }
      return null;
    });
  const four = { prompts: 1, completions: 4 };
  const two = { prompts: 2, completions: 8 };

  test('a fall to 5% is a collapse', () => {
    const course = { shape: four, steps: 600, accuracy: dip(300, 600, 0.05), thinking: shorter(600) };
    for (const step of firstCollapses(course)) {
      expect(step).toBeGreaterThan(300);
      expect(step).toBeLessThan(420);
    }
  });

  test('so are 30 points for 60 steps, while thinking is becoming as short', () => {
    const course = { shape: two, steps: 1200, accuracy: dip(500, 560, 0.5), thinking: shorter(1200) };
    expect(firstCollapses(course).filter((step) => step !== null).length).toBeGreaterThanOrEqual(8);
  });

  test.each<[string, Omit<Course, 'seed'>]>([
    ['constant accuracy', { shape: two, steps: 1200, accuracy: () => 0.78, thinking: shorter(1200) }],
    ['low accuracy', { shape: two, steps: 1200, accuracy: () => 0.15, thinking: shorter(1200) }],
    [
      'groups of 3',
      { shape: { prompts: 1, completions: 3 }, steps: 2000, accuracy: () => 0.78, thinking: shorter(2000) },
    ],
    [
      'a season of 100 steps',
      {
        shape: one,
        steps: 1200,
        accuracy: (step) => 0.75 + 0.08 * Math.sin((2 * Math.PI * step) / 100),
        thinking: shorter(1200),
      },
    ],
    [
      'thinking at a twentieth',
      {
        shape: two,
        steps: 1200,
        accuracy: () => 0.85,
        thinking: (step) => 3000 * (1 - 0.95 * Math.min(1, step / 400)),
      },
    ],
    [
      'an upward drift',
      { shape: one, steps: 1200, accuracy: (step) => 0.6 + 0.00025 * step, thinking: shorter(1200) },
    ],
  ])('%s is none', (_, course) => {
    expect(firstCollapses(course).filter((step) => step !== null)).toEqual([]);
  });
});

test('an older file with fewer names works too', () => {
  const few = ({ step, ...line }: KnownMetrics): KnownMetrics => ({
    step,
    'accuracy/mean': line['accuracy/mean'],
    'thinking/mean': line['thinking/mean'],
  });
  const fall = { kind: 'spread', points: 0.3, after: 800, ramp: 0 } as const;
  const run = { seed: 9200, solve: U, shape: one, steps: 1200, thinking: [0.25, 400] as const };
  expect(changesOf(run, few)).toEqual([]);
  expect(changesOf({ ...run, fall }, few).map(({ to }) => to)).toContain('collapsed');
});

describe('what is not a fall', () => {
  const run = { seed: 9300, solve: U, shape: one, steps: 1200, thinking: [0.2, 800] as const };

  test('answers that are all correct for a long time, with occasional misses', () => {
    const nearlyAll = (line: KnownMetrics): KnownMetrics => ({
      ...line,
      'accuracy/mean': line.step! > 500 && line.step! % 40 === 0 ? 0.75 : 1,
      'accuracy/groups_all_correct': line.step! > 500 && line.step! % 40 === 0 ? 0 : 1,
      'accuracy/groups_all_wrong': 0,
    });
    expect(changesOf(run, nearlyAll)).toEqual([]);
  });

  test('accuracy that improves slowly', () => {
    const better = (line: KnownMetrics): KnownMetrics => ({
      ...line,
      'accuracy/mean': Math.min(1, (line['accuracy/mean']! * (600 + line.step!)) / 1800),
    });
    expect(changesOf(run, better).filter(({ to }) => to === 'collapsed')).toEqual([]);
  });

  test('brevity that pays for a while', () => {
    const phase = (line: KnownMetrics): KnownMetrics =>
      line.step! > 900 && line.step! < 960 ? { ...line, 'advantages/brevity': 1 } : line;
    expect(changesOf(run, phase)).toEqual([]);
  });
});
