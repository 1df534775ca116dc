/** The live block: its lines at every width, and how it stands on a terminal. */
import { resolveConfig } from '../../src/config';
import { colorsOf, isTerminal } from '../../src/cli/view/colors';
import { liveLines } from '../../src/cli/view/live';
import { ProgressState } from '../../src/cli/view/progress-state';
import { ACCURACY, sparkline, TOKENS } from '../../src/cli/view/sparkline';
import { LiveRegion } from '../../src/cli/view/terminal';
import { columnsOf, cutTo, wrapHard, wrapWords } from '../../src/cli/view/text';
import type { TrainEvent } from '../../src/train';
import type { StepMetrics } from '../../src/base/types';
import { Screen } from '../helpers/screen';

const plain = colorsOf({ write: () => true }, {});
const coloured = colorsOf({ write: () => true }, { FORCE_COLOR: '1' });
const withoutColours = (text: string) => text.replaceAll(/\x1b\[\d+m/g, ''); // eslint-disable-line no-control-regex

const config = resolveConfig([{ maxSteps: 200 }]);
const metricsOf = (step: number): StepMetrics => ({
  step,
  step_time: 60,
  'accuracy/mean': 0.5 + step / 500,
  'thinking/mean': 4000 - 15 * step,
  'completions/mean_length': 4200 - 15 * step,
  'acoer/alpha': 0.123,
  'acoer/budget': 1234,
  'monitor/state': 1,
});

/** A state after these steps, with a step in progress. */
function stateAfter(steps: number): ProgressState {
  const state = new ProgressState(() => 3_600_000);
  state.begin(config.maxSteps, []);
  for (let index = 1; index <= steps; index++)
    state.observe({ type: 'step', index, metrics: metricsOf(index) });
  const decoding = { type: 'decode-progress', step: steps + 1, done: 3, total: 16 } as const;
  state.observe({ ...decoding, tokens: 12_345, tokensPerSecond: 678.9 } as TrainEvent);
  return state;
}

describe('lines', () => {
  test('progress, curves, state and what is in flight', () => {
    const lines = liveLines(stateAfter(50), 100, plain);
    expect(lines).toHaveLength(5);
    expect(lines[0]).toMatch(/^━{10}─{30} 50\/200 {2}25% {2}\dh \d\dm left$/);
    expect(lines[1]).toMatch(/^accuracy {3}58\.1% {2}[▁▂▃▄▅▆▇█]{50}$/);
    expect(lines[2]).toMatch(/^thinking {2}3392\.5 {2}[▆▇█]{50}$/);
    expect(lines[3]).toBe('alpha 0.123  budget 1234  monitor warning  0s so far');
    expect(lines[4]).toBe('decoding: 3 of 16 done, 12,345 tokens, 679 tokens/s');
  });

  test('no line is wider than the terminal at any width, and colours take no place', () => {
    for (const steps of [0, 1, 7, 199, 200]) {
      const state = stateAfter(steps);
      for (const width of [...Array(60).keys(), 80, 99, 119, 200].map((w) => w + 1)) {
        const lines = liveLines(state, width, plain);
        expect(Math.max(...lines.map(columnsOf))).toBeLessThanOrEqual(width);
        expect(liveLines(state, width, coloured).map(withoutColours)).toEqual(lines);
      }
    }
  });

  test('at 40 columns all that matters is there', () => {
    const text = liveLines(stateAfter(50), 39, plain).join('\n');
    expect(text).toMatch(
      /━.* 50\/200 .* left\naccuracy .*[▁▂▃▄▅▆▇█]\nthinking .*[▆▇█]\nalpha .*budget 1234\ndecoding: 3 of 16/,
    );
  });

  test('before the first step there are no curves and no remaining time', () => {
    expect(liveLines(stateAfter(0), 80, plain)[0]).toMatch(/^─{40} 0\/200 {2}0%$/);
    const fresh = new ProgressState(() => 0);
    fresh.begin(200, []);
    expect(liveLines(fresh, 80, plain).at(-1)).toBe('loading');
  });

  test('a resumed run begins with its recorded steps; a rollback takes steps back', () => {
    const state = new ProgressState(() => 0);
    state.begin(
      200,
      Array.from({ length: 30 }, (_, i) => metricsOf(i + 1)),
    );
    expect([state.step, state.accuracies.length]).toEqual([30, 30]);
    const rollback = { number: 1, from: 30, to: 20, pressure: 0.5, reason: '' };
    state.observe({ type: 'rollback', rollback });
    expect([state.step, state.accuracies.length]).toEqual([20, 20]);
  });

  test('a step without numbers leaves no mark', () => {
    const state = stateAfter(3);
    state.observe({ type: 'step', index: 4, metrics: { step: 4, update_applied: 0 } });
    expect([state.step, state.accuracies.length]).toEqual([4, 3]);
    expect(liveLines(state, 80, plain).join('')).not.toContain('NaN');
  });
});

describe('sparklines', () => {
  test('tokens are drawn from zero, accuracy from the lowest value', () => {
    expect(sparkline([0, 50, 100], 10, TOKENS)).toBe('▁▅█');
    expect(sparkline([80, 90, 100], 10, TOKENS)).toBe('▇▇█');
    expect(sparkline([0.5, 0.75, 1], 10, ACCURACY)).toBe('▁▅█');
  });
  test('noise does not look like a fall', () => {
    expect(sparkline([0.99, 1, 0.98], 10, ACCURACY)).toBe('███');
    expect(sparkline([0, 0], 10, TOKENS)).toBe('▁▁');
  });
  test('more values than columns are averaged over equal stretches', () => {
    const values = Array.from({ length: 1200 }, (_, i) => i);
    expect(sparkline(values, 60, TOKENS)).toHaveLength(60);
    expect(sparkline([0, 100, 0, 100], 2, { low: 0, high: 100, span: 100 })).toBe('▅▅');
  });
});

describe('colours', () => {
  const tty = { write: () => true, isTTY: true };
  const pipe = { write: () => true };
  test.each([
    [tty, {}, true],
    [pipe, {}, false],
    [tty, { NO_COLOR: '1' }, false],
    [tty, { NO_COLOR: '' }, true],
    [tty, { TERM: 'dumb' }, false],
    [pipe, { FORCE_COLOR: '1' }, true],
    [pipe, { FORCE_COLOR: '0' }, false],
    [tty, { FORCE_COLOR: '0' }, false],
    [pipe, { FORCE_COLOR: '1', NO_COLOR: '1' }, false],
  ])('%j with %j: %s', (stream, env, expected) => {
    expect(colorsOf(stream, env).isColorSupported).toBe(expected);
  });
  test('a dumb terminal is none', () => {
    expect([isTerminal(tty, {}), isTerminal(tty, { TERM: 'dumb' }), isTerminal(pipe, {})]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe('widths', () => {
  // By Unicode's East Asian Width and its list of emoji.
  test.each([
    ['日本', 4],
    ['👩‍👩‍👧', 2],
    ['🇩🇪', 2],
    ['🫠', 2],
    ['e\u0301', 1],
    ['ｱ', 1],
    ['é…█', 3],
  ])('%s takes %d columns', (text, columns) => {
    expect(columnsOf(text)).toBe(columns);
  });
  test('a cut never splits an emoji or a wide character', () => {
    expect([cutTo('日本語', 3), cutTo('a👩‍👩‍👧b', 2), cutTo('a👩‍👩‍👧b', 3)]).toEqual(['日', 'a', 'a👩‍👩‍👧']);
  });
  test.each([1022, 1023, 1024, 1025, 2047])('what begins at character %d of a long text is whole', (at) => {
    const text = `é${'x'.repeat(at - 1)}👩‍👩‍👧e\u0301${'x'.repeat(1000)}`;
    expect(columnsOf(text)).toBe(at + 2 + 1 + 1000);
    expect(cutTo(text, at + 1)).toBe(text.slice(0, at));
  });
  test('words are wrapped by columns, and long ones are cut', () => {
    expect(wrapWords('日本語 日本語 abc', 7)).toEqual(['日本語', '日本語', 'abc']);
    expect(wrapHard('ab 日本語日本語日本語', 7)).toEqual(['ab', '日本語', '日本語', '日本語']);
    expect(wrapHard('', 10)).toEqual(['']);
    for (const text of ['x'.repeat(1_000_000), `é${'x '.repeat(200_000)}`, '日'.repeat(200_000)]) {
      const lines = wrapHard(text, 79);
      expect(Math.max(...lines.map(columnsOf))).toBeLessThanOrEqual(79);
      expect(lines.join('').replaceAll(' ', '')).toBe(text.replaceAll(' ', ''));
    }
  });
});

describe('region', () => {
  function region(columns: number, lines: () => string[]) {
    const screen = new Screen(columns);
    const writes: string[] = [];
    const stream = {
      isTTY: true,
      columns,
      rows: 24,
      write: (text: string) => (writes.push(text), screen.write(text)),
    };
    return { screen, writes, stream, live: new LiveRegion(stream, lines, [stream]) };
  }
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  const listeners = () =>
    ['exit', 'SIGTSTP', 'SIGCONT', 'uncaughtExceptionMonitor'].map((name) => process.listenerCount(name));

  test('what is printed stays above the live lines, each redraw is one write, and the end leaves no trace', () => {
    const before = listeners();
    let n = 0;
    const { screen, writes, live } = region(80, () => [`live ${n++}`, 'x'.repeat(n % 3), 'last']);
    live.print(['first']);
    live.update();
    expect(screen.cursorShown).toBe(false);
    const writesBefore = writes.length;
    for (let i = 0; i < 10; i++) live.print([`kept ${i}`]);
    expect(writes.length).toBe(writesBefore + 10);
    expect(screen.lines.slice(-3)[0]).toMatch(/^live/);
    live.close();
    expect(screen.lines).toEqual(['first', ...Array.from({ length: 10 }, (_, i) => `kept ${i}`), '']);
    expect(screen.cursorShown).toBe(true);
    expect(listeners()).toEqual(before);
  });

  test('a thousand updates a second are drawn about ten times', async () => {
    const { writes, live } = region(80, () => ['line']);
    const begun = performance.now();
    while (performance.now() - begun < 500) {
      live.update();
      await wait(0);
    }
    live.close();
    expect(writes.length).toBeLessThanOrEqual(10);
    expect(writes.length).toBeGreaterThanOrEqual(3);
  });

  test("others' output appears above the live lines, also when it ends within a line", async () => {
    const { screen, stream, live } = region(80, () => ['live', 'lines']);
    live.update();
    stream.write('a reward logs\n');
    stream.write('partial');
    live.update();
    await wait(150);
    expect(screen.lines).toEqual(['a reward logs', 'partial', 'live', 'lines']);
    live.close();
    stream.write('later\n');
    expect(screen.lines).toEqual(['a reward logs', 'partial', 'later', '']);
  });

  test('a terminal with few rows keeps one for what is printed', () => {
    const { screen, stream, live } = region(80, () => ['1', '2', '3', '4', '5']);
    stream.rows = 3;
    live.update();
    expect(screen.lines).toEqual(['1', '2']);
    live.close();
  });
});
