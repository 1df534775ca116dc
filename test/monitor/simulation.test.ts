/** A small part of scripts/guard-simulation.mjs, on its own runs. */
import {
  bareContext,
  initialMonitorState,
  monitorSettings,
  observe,
  type HealthChange,
} from '../../src/monitor';
import type { KnownMetrics } from '../../src/metric-names';
import { beta, FALLS, syntheticRun, uniform, type Options, type Solve } from '../helpers/synthetic-runs';

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
