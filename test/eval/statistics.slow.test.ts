/** Intervals and tests against scipy and statsmodels (scripts/fixtures/evaluation.py). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compare, type EvalRow, type Interval, passAtK, report, wilsonInterval } from '../../src/eval';
import { mcnemarP } from '../../src/eval/compare';
import { majority } from '../../src/eval/votes';

interface Resampled extends Interval {
  p: number;
}

interface Fixture {
  mcnemar: { onlyA: number; onlyB: number; p: number }[];
  wilson: { correct: number; n: number; low: number; high: number }[];
  passAtK: { n: number; c: number; k: number; value: number }[];
  a: { rows: { correct: number; thinking: number; total: number }[]; intervals: Record<string, Resampled> };
  b: { rows: { correct: number; thinking: number; total: number }[] };
  paired: Record<'accuracy' | 'thinkingTokens' | 'totalTokens' | 'totalChange', Resampled> & {
    mcnemarP: number;
  };
}

const fixture = JSON.parse(
  readFileSync(join(__dirname, '..', 'fixtures', 'eval', 'statistics.json'), 'utf8'),
) as Fixture;

function row(
  index: number,
  sample: number,
  correct: boolean,
  thinking = 10,
  total = 20,
  extracted = 'x',
): EvalRow {
  return {
    index,
    sample,
    problemId: `p${index}`,
    gold: String(index),
    level: String(1 + (index % 3)),
    verdict: { correct, status: correct ? 'correct' : 'incorrect', extracted },
    thinkingTokens: thinking,
    thinkingClosed: true,
    totalTokens: total,
    truncated: false,
  };
}

const rowsOf = (side: Fixture['b']): EvalRow[] =>
  side.rows.map(({ correct, thinking, total }, i) => row(i, 0, correct === 1, thinking, total));

/**
 * The ends of an interval over 10,000 resamples have a standard error of 0.7% of the interval's width (the
 * quantile's binomial error over the normal density there), so 4% is beyond chance.
 * @param step between neighbouring values of a discrete figure: an end close to one may fall on either side
 */
function expectClose(ours: Interval, theirs: Interval, step = 0): void {
  const tolerance = Math.max(0.04 * (theirs.high - theirs.low), step + 1e-9);
  expect(Math.abs(ours.low - theirs.low)).toBeLessThan(tolerance);
  expect(Math.abs(ours.high - theirs.high)).toBeLessThan(tolerance);
}

/** Step of an accuracy: one problem. */
const STEP = 1 / 150;

test.each(fixture.mcnemar)('exact McNemar of $onlyA against $onlyB', ({ onlyA, onlyB, p }) => {
  expect(mcnemarP(onlyA, onlyB) / p).toBeCloseTo(1, 9);
});

test.each(fixture.wilson)('the interval of $correct correct of $n', ({ correct, n, low, high }) => {
  const own = wilsonInterval(correct, n);
  expect(own.low).toBeCloseTo(low, 12);
  expect(own.high).toBeCloseTo(high, 12);
});

test('pass@k with more draws than answers, none, or numbers that are none', () => {
  expect(passAtK(2, 0, 5)).toBe(0);
  expect(passAtK(0, 0, 1)).toBe(0);
  expect(passAtK(2, 1, 5)).toBe(1);
  expect(passAtK(4, 4, 0)).toBe(0);
  for (const [n, c, k] of [
    [2, 3, 1],
    [2, -1, 1],
    [2, 1, -1],
    [2.5, 1, 1],
    [2, 0.5, 1],
    [2, 1, 1.5],
    [NaN, 0, 1],
    [2, 0, Infinity],
  ] as const)
    expect(() => passAtK(n, c, k)).toThrow('whole numbers');
});

test.each(fixture.passAtK)('pass@$k with $c correct of $n', ({ n, c, k, value }) => {
  expect(passAtK(n, c, k)).toBeCloseTo(value, 12);
});

const reportA = report(rowsOf(fixture.a));
/** For what holds of any number of resamples. */
const FEW = { resamples: 200 };
const fewA = report(rowsOf(fixture.a), FEW);

test.each(Object.keys(fixture.a.intervals))('the interval of %s equals scipy’s', (name) => {
  const step = name === 'accuracy' ? STEP : 0;
  expectClose(reportA.intervals[name as keyof typeof reportA.intervals], fixture.a.intervals[name]!, step);
});

test('paired differences equal scipy’s, McNemar equals statsmodels’', () => {
  const compared = compare(rowsOf(fixture.a), rowsOf(fixture.b));
  for (const name of ['accuracy', 'thinkingTokens', 'totalTokens'] as const) {
    expectClose(compared[name].interval, fixture.paired[name], name === 'accuracy' ? STEP : 0);
    // With 10,000 draws the fraction on one side of 0 has a standard error of at most 0.005.
    expect(Math.abs(compared[name].p - fixture.paired[name].p)).toBeLessThan(0.04);
  }
  expectClose(compared.totalTokens.changeInterval, fixture.paired.totalChange);
  expect(compared.mcnemar!.p).toBeCloseTo(fixture.paired.mcnemarP, 12);
  expect(compared.pairs).toBe(150);
});

test('the same rows in another order with the same seed give the same report to the last bit; another seed gives other intervals', () => {
  const rows = rowsOf(fixture.a);
  expect(report([...rows].reverse(), FEW)).toEqual(fewA);
  expect(report(rows, { ...FEW, seed: 7 }).intervals).not.toEqual(fewA.intervals);
});

test('answers to one problem are resampled together: copies of an answer add no certainty', () => {
  const rows = rowsOf(fixture.a).map((one) => ({ ...one, level: null }));
  const fourfold = rows.flatMap((one) => [0, 1, 2, 3].map((sample) => ({ ...one, sample })));
  const { intervals, problems, n } = report(fourfold);
  expect([problems, n]).toEqual([150, 600]);
  expectClose(intervals.accuracy, reportA.intervals.accuracy, STEP);
  expectClose(intervals.totalTokens, reportA.intervals.totalTokens);
});

test('without token counts every length figure is NaN, but accuracy is not', () => {
  const rows = rowsOf(fixture.a).map((one) => ({
    ...one,
    totalTokens: NaN,
    thinkingTokens: NaN,
    truncated: null,
  }));
  const unknown = report(rows, FEW);
  expect(unknown.accuracy).toBe(fewA.accuracy);
  expect(unknown.intervals.accuracy).toEqual(fewA.intervals.accuracy);
  for (const key of [
    'thinkingTokens',
    'totalTokens',
    'medianTotalTokens',
    'accuracyPer1kTokens',
    'truncated',
  ] as const) {
    expect(unknown[key]).toBeNaN();
    expect(unknown.intervals[key]).toEqual({ low: NaN, high: NaN });
  }
});

test('the majority counts equal answers together, however they are written; ties count in part', () => {
  const vote = (...answers: [string | null, boolean][]) =>
    majority(
      answers.map(([extracted, correct], i) => ({
        ...row(0, i, correct),
        verdict: { correct, status: 'incorrect', extracted },
      })),
    );
  expect(vote(['\\frac12', true], ['0.5', true], ['3', false], ['3', false], ['1/2', true])).toBe(1);
  expect(vote(['1', true], ['2', false], ['2.0', false])).toBe(0);
  expect(vote(['1', true], ['2', false])).toBe(0.5);
  expect(vote([null, false], [null, false], ['1', true])).toBe(1);
  expect(vote([null, false])).toBe(0);
});

test('pass@k and maj@k over problems; with one answer per problem there is neither', () => {
  const rows = [0, 1].flatMap((index) =>
    [0, 1, 2, 3].map((sample) =>
      row(index, sample, index === 0 || sample === 0, 10, 20, index === 0 || sample === 0 ? '1' : '2'),
    ),
  );
  expect(report(rows).atK).toEqual([
    { k: 1, pass: 0.625, majority: 0.625 },
    { k: 2, pass: 0.75, majority: (1 + (0.5 + 0) / 2) / 2 },
    { k: 4, pass: 1, majority: 0.5 },
  ]);
  expect(reportA.atK).toEqual([]);
});

test('problems are paired by id in any order, and by position without unique ids', () => {
  const rows = rowsOf(fixture.a);
  const moved = [...rows].reverse().map((one, index) => ({ ...one, index }));
  expect(compare(rows, moved, FEW)).toMatchObject({ pairs: 150, mcnemar: { onlyA: 0, onlyB: 0, p: 1 } });
  expect(compare(rows, moved.slice(0, 100), FEW)).toMatchObject({
    pairs: 100,
    unpairedA: 50,
    unpairedB: 0,
  });
  const renamed = rows.map((one) => ({ ...one, problemId: `other ${one.index}` }));
  expect(compare(rows, renamed, FEW).pairs).toBe(150);
});

test('different benchmarks are not compared', () => {
  const rows = rowsOf(fixture.a);
  const other = rows.map((one) => ({ ...one, gold: `${one.gold}0` }));
  expect(() => compare(rows, other)).toThrow(/p0 has the reference answer "0" in A but "00" in B/);
  const apart = rows.map((one) => ({ ...one, index: one.index + 1000, problemId: `q${one.index}` }));
  expect(() => compare(rows, apart)).toThrow(/no problem in common/);
});

test('several answers per problem: no McNemar test, but still the bootstrap of the means', () => {
  const twice = rowsOf(fixture.a).flatMap((one) => [one, { ...one, sample: 1 }]);
  const compared = compare(twice, rowsOf(fixture.b));
  expect(compared.mcnemar).toBeNull();
  expectClose(compared.accuracy.interval, fixture.paired.accuracy, STEP);
});
