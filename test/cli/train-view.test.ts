import { resolveConfig } from '../../src/config';
import { answersLines, summaryTable } from '../../src/cli/view/closing';
import { change } from '../../src/cli/view/format';
import { ProgressView } from '../../src/cli/view/progress';
import type { EvalSummary } from '../../src/eval';
import { duration, percent } from '../../src/base/text';
import type { Evaluation, RunSummary, TrainEvent } from '../../src/train';
import { Screen } from '../helpers/screen';

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
test('the table has a row per level and one for all, for both kinds', () => {
  const lines = summaryTable(summaryOf(base, evaluation([0.98, 37], [0.9, 38])));
  expect(lines.filter((line) => line.startsWith('level 1'))).toHaveLength(2);
  expect(lines.find((line) => line.startsWith('all'))).toMatch(/96\.0% +98\.0% +120\.0 +37\.0 +-69%/);
  expect(new Set(lines.slice(1, 4).map((line) => line.trimEnd().length)).size).toBeLessThanOrEqual(2);
  for (const line of lines) expect(line).not.toMatch(/ $/);
});

test('numbers are formatted for people', () => {
  expect([duration(900), duration(65_000), duration(7_380_000)]).toEqual(['1s', '1m 05s', '2h 03m']);
  expect([change(100, 30), change(100, 130), change(9, 9), change(0, 1)]).toEqual(['-70%', '+30%', '0%', '']);
  expect(percent(0.9567)).toBe('95.7%');
});

describe('progress', () => {
  const config = resolveConfig([{ maxSteps: 30 }]);
  const events: TrainEvent[] = [
    { type: 'run', directory: 'runs/x', config, resumedStep: 4 },
    {
      type: 'loaded',
      model: 'tiny',
      parameters: 338784,
      trained: 87552,
      device: 'cpu',
      dtype: 'float32',
      quantization: null,
    },
    {
      type: 'eval-progress',
      phase: 'base',
      kind: 'greedy',
      done: 1,
      total: 2,
      tokens: 40,
      tokensPerSecond: 20,
      sequences: [],
    },
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

  function output(columns?: number): { text: string; screen: Screen } {
    let text = '';
    const screen = new Screen(columns ?? Infinity);
    const write = (part: string) => {
      text += part;
      return screen.write(part);
    };
    const view = new ProgressView({ write, isTTY: columns !== undefined, columns });
    events.forEach(view.onEvent);
    view.close();
    return { text, screen };
  }

  const stepsOf = (text: string) => text.split('\n').filter((line) => line.startsWith('step'));

  test('a pipe gets plain lines', () => {
    const { text } = output();
    expect(text).not.toContain('\x1b');
    expect(text).not.toContain('\r');
    expect(stepsOf(text).map((line) => line.slice(0, 10).trim())).toEqual([
      'step  1/30',
      'step 10/30',
      'step 20/30',
      'step 30/30',
    ]);
    expect(stepsOf(text)[1]).toMatch(
      /accuracy +50\.0% +thinking +99\.5 +reward 1\.200 +alpha 0\.020 +budget 256 +\d+s left/,
    );
    expect(text).toContain('8 prompts x 4 completions = 32');
    expect(text).toContain('resuming after step 4');
    expect(text).toContain('warning: careful');
  });

  test('a terminal ends up with the same lines; of the live block nothing is left, and the cursor is back', () => {
    const { text, screen } = output(200);
    expect(text).toContain('evaluating the base model, greedy: 1 of 2');
    expect(text).toContain('\x1b[?25l');
    const untimed = (of: string) => of.replaceAll(/\d+s left/g, 'left');
    expect(untimed(screen.lines.join('\n'))).toBe(untimed(output().text));
    expect(screen.cursorShown).toBe(true);
  });

  test('a terminal that cannot move its cursor gets plain lines', () => {
    const before = process.env.TERM;
    process.env.TERM = 'dumb';
    try {
      expect(output(200).text).not.toContain('\x1b');
    } finally {
      if (before === undefined) delete process.env.TERM;
      else process.env.TERM = before;
    }
  });

  test.each([40, 80, 100, 120])('nothing wraps in %d columns', (columns) => {
    const { screen, text } = output(columns);
    const shown = text.replaceAll(/\x1b\[\??[\d;]*[A-Za-z]/g, '').split(/[\r\n]+/); // eslint-disable-line no-control-regex
    expect(Math.max(...shown.map((line) => line.length))).toBeLessThan(columns);
    // What is dropped on a narrow terminal is never the essential part.
    const steps = stepsOf(screen.lines.join('\n'));
    expect(steps).toHaveLength(4);
    const essential = columns > 40 ? /accuracy .* thinking .* left/ : /acc .* think /;
    for (const line of steps) expect(line).toMatch(essential);
  });

  test('every slow step leaves its line', () => {
    let now = 0;
    let text = '';
    const view = new ProgressView({ write: (part) => (text += part) }, { now: () => now });
    for (const event of events) {
      if (event.type === 'step') now += 60_000;
      view.onEvent(event);
    }
    expect(stepsOf(text)).toHaveLength(30);
    expect(stepsOf(text)[9]).toMatch(/20m 00s left$/);
  });

  test('what comes from models and files cannot write to the terminal by itself', () => {
    let text = '';
    const view = new ProgressView({ write: (part) => (text += part) });
    const message = `cannot read \x1b[2Jx\u009b1m\u202e.json\n${'y'.repeat(1e6)}`;
    view.onEvent({ type: 'warning', message });
    view.onEvent({ type: 'checkpoint', step: 1, path: 'runs/\x1b]0;x\x07/1' });
    expect(text).toContain('warning: cannot read \\x1b[2Jx\\x9b1m\\u202e.json\n');
    expect(text).toContain('checkpoint runs/\\x1b]0;x\\x07/1\n');
    expect(text.length).toBeLessThan(4000);
  });

  test('shows the first problem before and after, cutting long answers in the middle', () => {
    const answer = (phase: 'base' | 'trained', text: string): TrainEvent => ({
      type: 'answer',
      phase,
      question: '6-3-4 mod 10?',
      text,
      correct: phase === 'trained',
      thinkingTokens: text.length,
    });
    const view = new ProgressView({ write: () => true });
    const long = Array.from({ length: 40 }, (_, i) => `line ${i}`).join('\n');
    for (const event of [answer('base', long), answer('trained', '3+6=9 \\boxed{9}')]) view.onEvent(event);
    const lines = answersLines(view.answers.base, view.answers.trained, 80);
    expect(lines[1]).toBe('  6-3-4 mod 10?');
    expect(lines).toContain('    ... 28 lines ...');
    expect(lines.find((line) => line.startsWith('  before'))).toMatch(/wrong, \d+ thinking tokens/);
    expect(lines.slice(-2)).toEqual(['  after: correct, 15 thinking tokens', '    3+6=9 \\boxed{9}']);
    expect(answersLines(null, view.answers.trained, 80)).toEqual([]);
  });
});
