/** The verdict on a run, from evaluations of the same problems, its course and its monitor. */
import { closingLines } from '../../src/cli/view/closing';
import { accuracyChange, pairedInterval } from '../../src/eval';
import { runVerdict, train, type RunEvaluation, type RunSummary } from '../../src/train';
import { uniformStream } from '../../src/base/rng';
import type { StepMetrics } from '../../src/base/types';
import { fakeRun, metricsOf, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { asCall } from '../helpers/given';

afterAll(removeFakeRuns);

/** Solves the first `right` of `n` problems. */
function evaluation(right: number, n: number, thinkingTokens: number, outside = 9): RunEvaluation {
  const tokens = { thinkingTokens, totalTokens: thinkingTokens + outside };
  const solved = '1'.repeat(right) + '0'.repeat(n - right);
  return { n, accuracy: right / n, ...tokens, solved, perLevel: {} } as unknown as RunEvaluation;
}

type Pair = [greedy: RunEvaluation | null, sampled: RunEvaluation | null];
const summaryOf = (base: Pair, trained: Pair): RunSummary => ({
  base: { greedy: base[0], sampled: base[1] },
  trained: { greedy: trained[0], sampled: trained[1] },
  run: { directory: 'runs/x', reward: 'acoer', seed: 1, steps: 200, best: null, rollbacks: 0 },
});

/** A course of noisy batches around `accuracy(step)`; `more` adds the other metrics. */
function courseOf(accuracy: (step: number) => number, more: (step: number) => StepMetrics = () => ({})) {
  const uniform = uniformStream(1n);
  return Array.from({ length: 200 }, (_, i): StepMetrics => {
    const noise = 0.1 * (uniform() - 0.5);
    return { step: i + 1, 'accuracy/mean': accuracy(i + 1) + noise, 'monitor/state': 0, ...more(i + 1) };
  });
}

const steady = courseOf(() => 0.9);
const BASE: Pair = [evaluation(300, 300, 120), evaluation(350, 500, 125)];
const outcome = (base: Pair, trained: Pair, lines = steady) =>
  runVerdict(summaryOf(base, trained), lines)!.outcome;

test.each<[string, Pair, Pair, StepMetrics[], string]>([
  ['a healthy run', BASE, [evaluation(298, 300, 37), evaluation(490, 500, 38)], steady, 'held'],
  ['greedy 99.3%', BASE, [evaluation(298, 300, 37), evaluation(470, 500, 38)], steady, 'held'],
  ['greedy far below', BASE, [evaluation(280, 300, 37), evaluation(490, 500, 38)], steady, 'over-compressed'],
  ['sampled below', BASE, [evaluation(300, 300, 30), evaluation(300, 500, 30)], steady, 'over-compressed'],
  ['no shorter', BASE, [evaluation(300, 300, 118), evaluation(360, 500, 121)], steady, 'not-shortened'],
  ['no shorter and worse', BASE, [evaluation(150, 300, 230), evaluation(150, 500, 220)], steady, 'lost'],
  [
    'one problem, 0% -> 0%',
    [evaluation(0, 1, 112), null],
    [evaluation(0, 1, 21), null],
    steady,
    'no-accuracy',
  ],
  [
    'eight problems, all right',
    [evaluation(8, 8, 112), null],
    [evaluation(8, 8, 21), null],
    steady,
    'untold',
  ],
  [
    'nothing solved before, much after',
    [evaluation(0, 300, 112), null],
    [evaluation(200, 300, 40), null],
    steady,
    'held',
  ],
  [
    'above the base, below the peak of its training',
    [evaluation(300, 300, 120), evaluation(347, 500, 125)],
    [evaluation(300, 300, 30), evaluation(420, 500, 30)],
    courseOf((step) => (step < 120 ? 0.95 : 0.84)),
    'below-peak',
  ],
  [
    'reasoning moved after </think>',
    [evaluation(290, 300, 120), null],
    [evaluation(290, 300, 0, 110), null],
    steady,
    'moved',
  ],
  [
    'the monitor ends in collapsed',
    BASE,
    [evaluation(300, 300, 37), evaluation(490, 500, 38)],
    courseOf(
      () => 0.9,
      (step) => ({ 'monitor/state': step < 180 ? 0 : 2 }),
    ),
    'collapsed',
  ],
])('%s', (_, base, trained, lines, expected) => {
  expect(outcome(base, trained, lines)).toBe(expected);
  // Whatever the verdict, its lines fit into a terminal.
  for (const line of closingLines(summaryOf(base, trained), lines))
    expect(line.length).toBeLessThanOrEqual(90);
});

test('noise alone does not count as a fall from the peak; a real fall of eight points does', () => {
  const held: Pair = [evaluation(300, 300, 37), evaluation(490, 500, 38)];
  const noise = uniformStream(7n);
  const fallen = Array.from({ length: 200 }, () =>
    outcome(
      BASE,
      held,
      courseOf(() => 0.7 + 0.5 * (noise() - 0.5)),
    ),
  ).filter((found) => found !== 'held');
  // At most one in a hundred: the peak is the highest of seven points.
  expect(fallen.length).toBeLessThanOrEqual(2);
  expect(
    outcome(
      BASE,
      held,
      courseOf((step) => (step < 150 ? 0.9 : 0.82)),
    ),
  ).toBe('below-peak');
});

test('if the run evaluated, its evaluations are the course', () => {
  const trained: Pair = [evaluation(300, 300, 37), evaluation(400, 500, 38)];
  const evaluated = (accuracy: number) =>
    courseOf(
      (step) => (step < 120 ? 0.95 : 0.7),
      (step) => (step % 50 === 0 ? { 'eval/sampled_accuracy': accuracy } : {}),
    );
  expect(outcome(BASE, trained, evaluated(0.82))).toBe('held');
  expect(outcome(BASE, trained, evaluated(0.96))).toBe('below-peak');
});

test('the lines name what is compared with what, and what the monitor found', () => {
  const lines = courseOf(
    () => 0.9,
    (step) => ({ 'monitor/state': step === 77 ? 2 : step > 30 && step < 140 ? 1 : 0 }),
  );
  const trained: Pair = [evaluation(299, 300, 37), evaluation(478, 500, 36.5)];
  expect(closingLines(summaryOf(BASE, trained), lines)).toEqual([
    'Shortened and held: thinking got shorter without a loss of accuracy.',
    '  thinking  125.0 -> 36.5 tokens (-71%)',
    expect.stringMatching(
      /^ {2}greedy {4}base 100.0% -> 99.7% of 300 problems, -0.3 points \(95% -\S+ to \+?\S+\)$/,
    ),
    expect.stringMatching(/^ {2}sampled {3}base 70.0% -> 95.6% of 500 problems, \+25.6 points/),
    '  monitor   found a collapse at step 77; healthy at the end',
  ]);
});

test('an answer that grew longer is mentioned', () => {
  const lines = closingLines(
    summaryOf([evaluation(290, 300, 120), null], [evaluation(290, 300, 40, 30), null]),
    steady,
  );
  expect(lines[0]).toMatch(/^Shortened and held/);
  expect(lines).toContain('  outside   9.0 -> 30.0 tokens outside the thinking block, an increase');
});

test('the interval of a paired difference covers the true one in about 95 of 100 samples', () => {
  const uniform = uniformStream(3n);
  for (const [lost, gained, n] of [
    [0.02, 0.02, 100],
    [0.1, 0.05, 60],
    [0.05, 0.3, 300],
  ] as const) {
    let covered = 0;
    for (let run = 0; run < 1000; run++) {
      let [b, c] = [0, 0];
      for (let i = 0; i < n; i++) {
        const u = uniform();
        if (u < lost) b++;
        else if (u < lost + gained) c++;
      }
      const { low, high } = pairedInterval(b, c, n);
      if (low <= gained - lost && gained - lost <= high) covered++;
    }
    expect(covered).toBeGreaterThan(930);
  }
});

test('evaluations without marks per problem are compared as two proportions', () => {
  const change = accuracyChange(
    { n: 100, accuracy: 0.9, solved: null },
    { n: 100, accuracy: 0.6, solved: null },
  );
  expect(change.p).toBeLessThan(1e-4);
  expect(change.interval.high).toBeLessThan(-0.15);
  const level = accuracyChange(
    { n: 98, accuracy: 0.5, solved: null },
    { n: 98, accuracy: 0.5, solved: null },
  );
  expect(level.p).toBeCloseTo(1, 6);
});

test('a run stores which problems it solved, and its verdict uses them', async () => {
  const out = newFolder();
  const summary = await (await train(...asCall(fakeRun({ out, maxSteps: 4 })))).result();
  for (const { greedy } of [summary.base, summary.trained]) {
    expect(greedy!.solved).toMatch(/^[01]{20}$/);
    const right = Array.from(greedy!.solved!).filter((mark) => mark === '1').length;
    expect(right / 20).toBeCloseTo(greedy!.accuracy, 12);
  }
  const verdict = runVerdict(summary, metricsOf(out))!;
  expect(verdict.greedy).toMatchObject({ n: 20, before: summary.base.greedy!.accuracy });
  expect(verdict.sampled).toBeNull();
});
