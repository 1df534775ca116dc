import { resolveConfig } from '../../src/config';
import { accuracyCourse, closingLines } from '../../src/cli/view/closing';
import { change, duration, percent } from '../../src/cli/view/format';
import { ProgressView } from '../../src/cli/view/progress';
import { summaryTable } from '../../src/cli/view/table';
import type { EvalSummary } from '../../src/eval';
import type { Evaluation, RunSummary, TrainEvent } from '../../src/grpo';

function evaluation(greedy: [number, number], sampled: [number, number]): Evaluation {
  const summary = ([accuracy, thinkingTokens]: [number, number]) => {
    const perLevel = { '1': { accuracy: 1, thinkingTokens: thinkingTokens / 2, n: 50 } };
    return { n: 100, accuracy, thinkingTokens, perLevel } as unknown as EvalSummary;
  };
  return { greedy: summary(greedy), sampled: summary(sampled) };
}

const summaryOf = (base: Evaluation, trained: Evaluation): RunSummary => ({
  base,
  trained,
  run: { directory: 'runs/x', reward: 'acoer', seed: 1, steps: 100, best: null, rollbacks: 0 },
});

const base = evaluation([0.96, 120], [0.7, 125]);
const course = (values: number[]) => values.map((value, i) => ({ step: i + 1, 'accuracy/mean': value }));
const rising = course(Array.from({ length: 100 }, (_, i) => 0.7 + 0.002 * i));
const sliding = course(Array.from({ length: 100 }, (_, i) => (i < 50 ? 0.88 : 0.75)));

describe('closing lines say what happened', () => {
  test('shortened and held', () => {
    const [verdict, facts] = closingLines(summaryOf(base, evaluation([0.98, 37], [0.9, 38])), rising);
    expect(verdict).toMatch(/^Shortened and held/);
    expect(facts).toContain('thinking 125.0 -> 38.0 tokens (-70%)');
    expect(facts).toContain('sampled accuracy 70.0% -> 90.0%');
  });

  test('over-compressed: fell from its peak, though still above the base', () => {
    const lines = closingLines(summaryOf(base, evaluation([0.95, 25], [0.75, 25])), sliding);
    expect(lines[0]).toMatch(/^Over-compressed/);
    expect(lines[2]).toContain('peaked at 88.0% (step 25) and ended 13.0 points lower, at 75.0%');
  });

  test('over-compressed: greedy accuracy lost', () => {
    const [verdict] = closingLines(summaryOf(base, evaluation([0.9, 25], [0.75, 25])), rising);
    expect(verdict).toMatch(/^Over-compressed/);
  });

  test('neither shorter nor worse', () => {
    const [verdict] = closingLines(summaryOf(base, evaluation([0.96, 118], [0.71, 121])), rising);
    expect(verdict).toBe('Thinking did not get much shorter.');
  });

  test('lost without getting shorter', () => {
    const [verdict] = closingLines(summaryOf(base, evaluation([0.5, 230], [0.3, 220])), rising);
    expect(verdict).toMatch(/^Accuracy was lost/);
  });

  test('without an evaluation there is nothing to say', () => {
    const none = { greedy: null, sampled: null };
    expect(closingLines(summaryOf(none, none), rising)).toEqual([]);
  });

  test('a short run has no course', () => {
    expect(accuracyCourse(rising.slice(0, 49))).toBeNull();
    expect(accuracyCourse(sliding)).toEqual({
      peak: expect.closeTo(0.88, 12),
      peakStep: 25,
      end: expect.closeTo(0.75, 12),
    });
  });
});

test('the table has a row per level and one over all, for both kinds', () => {
  const lines = summaryTable(summaryOf(base, evaluation([0.98, 37], [0.9, 38])));
  expect(lines.filter((line) => line.startsWith('level 1'))).toHaveLength(2);
  expect(lines.find((line) => line.startsWith('all'))).toMatch(/96\.0% +98\.0% +120\.0 +37\.0 +-69%/);
  expect(new Set(lines.slice(1, 4).map((line) => line.trimEnd().length)).size).toBeLessThanOrEqual(2);
});

test('numbers as people read them', () => {
  expect([duration(900), duration(65_000), duration(7_380_000)]).toEqual(['1s', '1m 05s', '2h 03m']);
  expect([change(100, 30), change(100, 130), change(9, 9), change(0, 1)]).toEqual(['-70%', '+30%', '0%', '']);
  expect(percent(0.9567)).toBe('95.7%');
});

describe('progress', () => {
  const config = resolveConfig([{ maxSteps: 30 }]);
  const events: TrainEvent[] = [
    { type: 'run', directory: 'runs/x', config, resumedStep: 4 },
    { type: 'loaded', model: 'tiny', parameters: 338784, trained: 87552, device: 'cpu', dtype: 'float32' },
    { type: 'eval-progress', phase: 'base', kind: 'greedy', done: 1, total: 2 },
    { type: 'evaluated', phase: 'base', kind: 'greedy', summary: base.greedy! },
    ...Array.from({ length: 30 }, (_, i): TrainEvent => {
      const metrics = {
        'accuracy/mean': 0.5,
        'thinking/mean': 99.5,
        reward: 1.2,
        'acoer/alpha': 0.02,
        'acoer/budget': 256,
      };
      return { type: 'step', index: i + 1, metrics };
    }),
    { type: 'warning', message: 'careful' },
  ];

  function output(isTTY: boolean): string {
    let text = '';
    const view = new ProgressView({ write: (part) => (text += part), isTTY, columns: 200 });
    events.forEach(view.onEvent);
    view.clear();
    return text;
  }

  test('a pipe gets plain lines', () => {
    const text = output(false);
    expect(text).not.toContain('\x1b');
    expect(text).not.toContain('\r');
    const steps = text.split('\n').filter((line) => line.startsWith('step'));
    expect(steps.map((line) => line.slice(0, 10).trim())).toEqual([
      'step  1/30',
      'step 10/30',
      'step 20/30',
      'step 30/30',
    ]);
    expect(steps[1]).toMatch(
      /accuracy +50\.0% +thinking +99\.5 +reward 1\.200 +alpha 0\.020 +budget 256 +\d+s left/,
    );
    expect(text).toContain('8 prompts x 4 completions = 32');
    expect(text).toContain('resuming after step 4');
    expect(text).toContain('warning: careful');
  });

  test('a terminal gets one line redrawn, left empty at the end', () => {
    const text = output(true);
    expect(text.split('\r\x1b[2Kstep').length - 1).toBe(30);
    expect(text.endsWith('warning: careful\n')).toBe(true);
  });
});
