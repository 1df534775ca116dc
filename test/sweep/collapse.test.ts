/** The paper's criterion of collapse, on courses where the answer can be counted by hand. */
import { resolveConfig } from '../../src/config';
import { endsLow, guardOnset, paperCollapse, thresholdOf } from '../../src/sweep/collapse';
import type { Measured } from '../../src/sweep/measured';

/** Evaluations of accuracy in percent and thinking tokens, every `every` steps from the base model on. */
const course = (
  every: number,
  ...points: readonly (readonly [accuracy: number, thinking: number])[]
): Measured[] =>
  points.map(([accuracy, thinkingTokens], i) => {
    const lengths = { thinkingTokens, totalTokens: thinkingTokens + 50 };
    return { step: i * every, n: 500, accuracy: accuracy / 100, ...lengths, problems: null };
  });

const at = (every: number, ...points: Parameters<typeof course>[1][]) =>
  paperCollapse(course(every, ...points), 500).onset;

test('short thinking and a fall of 5 points for 200 steps', () => {
  expect(at(200, [88, 5000], [87, 900], [83, 499], [60, 300], [60, 300])).toBe(400);
});

test.each([
  [
    'thinking of 500 tokens is not below 500',
    [
      [88, 5000],
      [87, 900],
      [60, 500],
      [60, 500],
    ],
  ],
  [
    'a fall of 4.9 points is not enough',
    [
      [88, 5000],
      [87, 900],
      [83.1, 400],
      [83.1, 400],
    ],
  ],
  [
    'one low evaluation spans no steps',
    [
      [88, 5000],
      [87, 900],
      [87, 480],
      [60, 300],
    ],
  ],
  [
    'a fall without short thinking',
    [
      [88, 5000],
      [60, 5000],
      [60, 5000],
      [60, 5000],
    ],
  ],
  [
    'short thinking without a fall',
    [
      [88, 5000],
      [88, 300],
      [88, 200],
      [88, 100],
    ],
  ],
  [
    'steps that are not consecutive',
    [
      [88, 5000],
      [60, 300],
      [88, 300],
      [60, 300],
    ],
  ],
] as const)('no collapse: %s', (_, points) => {
  expect(at(200, ...points)).toBeNull();
});

test('exactly 5 points count, whatever their last bits', () => {
  expect(at(200, [88.6, 5000], [83.6, 400], [83.6, 400])).toBe(200);
});

test('the peak is the highest so far, not the base', () => {
  expect(at(100, [80, 5000], [90, 900], [84, 400], [84, 400], [84, 400])).toBe(200);
});

test('finer evaluations must all be low for 200 steps', () => {
  const low = [60, 300] as const;
  expect(at(50, [88, 5000], low, low, low, low)).toBeNull();
  expect(at(50, [88, 5000], low, low, low, low, low)).toBe(50);
});

test('runs that are too short cannot show it', () => {
  const low = [60, 300] as const;
  expect(paperCollapse(course(20, [88, 5000], low, low, low, low), 500)).toEqual({
    onset: null,
    decidable: false,
  });
  expect(paperCollapse(course(100, [88, 5000], low, [88, 400], low), 500)).toEqual({
    onset: null,
    decidable: true,
  });
});

test("the threshold is the guard's own, the paper's on MATH-500, or a share of the base's thinking", () => {
  const [base] = course(200, [88, 400]);
  const config = (monitor: object) => resolveConfig([{ monitor }]);
  expect(thresholdOf('math500', config({ preset: 'default' }), base)).toBe(500);
  expect(thresholdOf('tiny', config({ preset: 'default' }), base)).toBeCloseTo(0.35 * 400, 12);
  expect(thresholdOf('tiny', config({ preset: 'default', collapseThinkingTokens: 90 }), base)).toBe(90);
  expect(thresholdOf('tiny', config({ preset: 'default' }), undefined)).toBeNull();
});

test("the guard's step is that of its first report, or the last of a run that it ended", () => {
  const lines = [0, 1, 2, 1, 2].map((state, i) => ({ step: i + 1, 'monitor/state': state }));
  expect(guardOnset({ collapsed: false }, lines)).toBe(3);
  expect(guardOnset({ collapsed: true }, lines.slice(0, 2))).toBe(2);
  expect(guardOnset({ collapsed: false }, lines.slice(0, 2))).toBeNull();
});

test.each([
  [
    '5 points below, whatever the length',
    [
      [50, 100],
      [60, 120],
      [55, 160],
    ],
    true,
  ],
  [
    '4.9 points below',
    [
      [50, 100],
      [60, 120],
      [55.1, 40],
    ],
    false,
  ],
  [
    'below the base',
    [
      [60, 100],
      [55, 90],
    ],
    true,
  ],
  [
    'low on the way only',
    [
      [50, 100],
      [40, 90],
      [50, 80],
    ],
    false,
  ],
  ['not yet evaluated in training', [[50, 100]], null],
  ['no evaluation', [], null],
] as const)('ending below the peak: %s', (_, points, low) => {
  expect(endsLow(course(50, ...points))).toBe(low);
});
