import {
  bareContext,
  MONITOR_PRESETS,
  initialMonitorState,
  monitorMetrics,
  monitorSettings,
  observe,
} from '../../src/monitor';
import type { HealthChange, MonitorSettings, MonitorState } from '../../src/monitor';
import type { StepMetrics } from '../../src/base/types';

const GROUPS = 8;
const context = bareContext(GROUPS);
const settings = monitorSettings({ preset: 'default' });

/** A line of metrics of a healthy run, overridden by what a case is about. */
const line = (step: number, more: StepMetrics = {}): StepMetrics => ({
  step,
  'accuracy/mean': 0.9,
  'accuracy/groups_all_wrong': 0,
  'accuracy/groups_all_correct': 0.8,
  'advantages/brevity': 0.4,
  'thinking/mean': 100,
  'thinking/correct_mean': 100,
  frac_reward_zero_std: 0.5,
  entropy: 0.1,
  'completions/clipped_ratio': 0,
  'advantages/min': -1,
  'advantages/max': 1,
  ...more,
});

interface Watched {
  state: MonitorState;
  changes: HealthChange[];
}

function watch(
  count: number,
  of: (step: number) => StepMetrics,
  given: MonitorSettings = settings,
  start = initialMonitorState(),
): Watched {
  let state = start;
  const changes: HealthChange[] = [];
  for (let i = 1; i <= count; i++) {
    const step = start.step + i;
    const seen = observe(state, line(step, of(step)), given, context);
    state = seen.state;
    if (seen.change !== null) changes.push(seen.change);
  }
  return { state, changes };
}

test('a steady run stays healthy and says nothing', () => {
  const { state, changes } = watch(300, () => ({}));
  expect(changes).toEqual([]);
  expect(state.health).toBe('healthy');
});

test('shortening without loss of accuracy is healthy', () => {
  const shorter = (step: number) => ({ 'thinking/mean': Math.max(30, 100 - step) });
  expect(watch(300, shorter).changes).toEqual([]);
});

describe('a warning', () => {
  const pressing = (step: number): StepMetrics =>
    step <= 40 ? {} : { 'thinking/mean': 25, 'advantages/brevity': 1 };

  test('comes when thinking is short and the shorter of two correct answers still gains', () => {
    const { changes } = watch(120, pressing);
    expect(changes).toHaveLength(1);
    expect(changes[0]).toMatchObject({ from: 'healthy', to: 'warning' });
    expect(changes[0]!.step).toBeGreaterThan(45);
    expect(changes[0]!.reason).toMatch(/^Warning: thinking [\d.]+ tokens.*of the cases\.$/);
    expect(changes[0]!.reason.match(/\. /g)).toBeNull();
  });

  test('comes long before thinking is as short as in a collapse', () => {
    const slow = (step: number) => ({ 'thinking/mean': 100 - step / 2, 'advantages/brevity': 1 });
    const { changes } = watch(110, slow);
    expect(changes.map(({ to }) => to)).toEqual(['warning']);
    expect(changes[0]!.reason).toMatch(/^Warning: thinking 5\d/);
    expect(watch(110, slow, { ...settings, warningThinkingRatio: 0.35 }).changes).toEqual([]);
  });

  test('goes once thinking has settled and accuracy has kept what it reached, though brevity pays on', () => {
    const floor = (step: number) => ({ 'thinking/mean': Math.max(35, 100 - step), 'advantages/brevity': 1 });
    const { changes, state } = watch(250, floor);
    expect(changes.map(({ to }) => to)).toEqual(['warning', 'healthy']);
    expect(state.health).toBe('healthy');
    const losing = (step: number) => ({ ...floor(step), 'accuracy/mean': step < 100 ? 0.9 : 0.8 });
    expect(watch(250, losing).state.health).not.toBe('healthy');
  });

  test('does not come while thinking is long, however much brevity pays', () => {
    expect(watch(120, () => ({ 'advantages/brevity': 1 })).changes).toEqual([]);
  });

  test.each<[string, StepMetrics, RegExp, Partial<MonitorSettings>]>([
    ['accuracy fell', { 'accuracy/mean': 0.7 }, /standard errors\) below the \d+ before/, {}],
    ['accuracy is under its peak', { 'accuracy/mean': 0.7 }, /points below its peak/, { warningZ: null }],
    ['groups are all wrong', { 'accuracy/groups_all_wrong': 0.3 }, /no correct answer/, {}],
    ['rewards have no variance', { frac_reward_zero_std: 0.9 }, /no variance/, { warningZeroStd: 0.7 }],
    ['more is cut off', { 'completions/clipped_ratio': 0.4 }, /cut off/, { warningTruncatedRise: 0.2 }],
    ['entropy rose', { entropy: 0.2 }, /entropy per token rose/, { warningEntropyRise: 0.5 }],
    ['advantages are large', { 'advantages/min': -9 }, /largest advantages/, { warningAdvantage: 4 }],
  ])('comes when %s, and goes when it is over', (_, bad, reason, more) => {
    const { changes } = watch(300, (step) => (step > 50 && step <= 80 ? bad : {}), { ...settings, ...more });
    expect(changes.map(({ to }) => to)).toEqual(['warning', 'healthy']);
    expect(changes[0]!.reason).toMatch(reason);
    expect(changes[0]!.step).toBeGreaterThan(50);
    expect(changes[1]!.reason).toMatch(/No condition/);
  });

  test('a condition that is turned off never holds', () => {
    const off = { ...settings, warningBrevity: null };
    expect(watch(120, pressing, off).changes).toEqual([]);
  });

  test('waits for warningSteps in a row', () => {
    const first = (warningSteps: number) =>
      watch(150, (step): StepMetrics => (step > 50 ? { 'accuracy/mean': 0.5 } : {}), {
        ...settings,
        warningSteps,
      }).changes[0]!.step;
    expect(first(21) - first(1)).toBe(20);
  });
});

describe('a collapse', () => {
  const fallen = (step: number): StepMetrics =>
    step <= 60 ? {} : { 'accuracy/mean': 0.5, 'thinking/mean': 20 };

  test('is accuracy below its peak and short thinking, and the reason says both', () => {
    const { state, changes } = watch(120, fallen);
    expect(changes.map(({ to }) => to)).toEqual(['warning', 'collapsed']);
    expect(state.health).toBe('collapsed');
    expect(changes[1]!.reason).toMatch(
      /^Collapse: sampled accuracy averages .* over \d+ groups, .* standard errors\) below the \d+ before, and thinking /,
    );
  });

  test('needs short thinking: a loss of accuracy alone is a warning', () => {
    const { changes } = watch(200, (step): StepMetrics => (step > 60 ? { 'accuracy/mean': 0.5 } : {}));
    expect(changes.map(({ to }) => to)).toEqual(['warning']);
  });
});

describe("the paper's definitions", () => {
  const paper = MONITOR_PRESETS.paper;
  const long: StepMetrics = { 'thinking/mean': 2000, frac_reward_zero_std: 0.2 };

  test('a collapse is 200 steps in a row below 500 tokens and 5 points below the peak', () => {
    const bad = { ...long, 'thinking/mean': 400, 'accuracy/mean': 0.8 };
    const { changes } = watch(600, (step) => (step > 100 ? bad : long), paper);
    expect(changes).toHaveLength(1);
    expect(changes[0]).toMatchObject({ to: 'collapsed' });
    expect(changes[0]!.step).toBeGreaterThan(300);
    expect(changes[0]!.step).toBeLessThan(350);
    const longer = watch(600, (step) => (step > 100 ? { ...bad, 'thinking/mean': 600 } : long), paper);
    expect(longer.changes).toEqual([]);
  });

  test('the warning is a fraction of groups without variance above one half', () => {
    const at = (share: number) => watch(200, () => ({ ...long, frac_reward_zero_std: share }), paper).changes;
    expect(at(0.5)).toEqual([]);
    expect(at(0.35)).toEqual([]);
    expect(at(0.6).map(({ to }) => to)).toEqual(['warning']);
  });
});

test('nothing is judged before spanGroups groups have been seen', () => {
  const { changes } = watch(9, (step) => ({ 'accuracy/mean': 1 - 0.1 * step }), {
    ...settings,
    warningSteps: 1,
  });
  expect(changes).toEqual([]);
});

test('batches of any size average the same groups alike', () => {
  // 160 groups, the later half of which is half as accurate: one by one, or in batches of eight.
  const run = (size: number) => {
    let state = initialMonitorState();
    for (let step = 1; step <= 160 / size; step++) {
      const accuracy = step * size <= 80 ? 0.9 : 0.45;
      state = observe(state, line(step, { 'accuracy/mean': accuracy }), settings, bareContext(size)).state;
    }
    return monitorMetrics(state)['monitor/accuracy']!;
  };
  expect(run(8)).toBeCloseTo(run(1), 12);
});

test('a batch whose references cannot be parsed changes nothing', () => {
  const { state } = watch(30, () => ({}));
  const unread = line(31, { 'accuracy/gold_unparseable': 1, 'accuracy/mean': 0 });
  const { state: after, change } = observe(state, unread, settings, context);
  expect(change).toBeNull();
  expect(after).toEqual({ ...state, step: 31, calmSteps: state.calmSteps + 1 });
});

test('the state survives a JSON round trip in the middle', () => {
  const of = (step: number): StepMetrics =>
    step % 3 === 0 ? { 'accuracy/mean': 0.5, 'thinking/mean': 20 } : { 'thinking/wrong_mean': step };
  const whole = watch(200, of);
  const half = watch(97, of);
  const stored = JSON.parse(JSON.stringify(half.state)) as MonitorState;
  const rest = watch(103, of, settings, stored);
  expect(rest.state).toEqual(whole.state);
  expect([...half.changes, ...rest.changes]).toEqual(whole.changes);
});

test('metrics have the state as a number, the averages and the peak', () => {
  const metrics = monitorMetrics(watch(100, () => ({})).state);
  expect(metrics['monitor/state']).toBe(0);
  expect(metrics['monitor/accuracy']).toBeCloseTo(0.9, 12);
  expect(metrics['monitor/accuracy_peak']).toBeCloseTo(0.9, 12);
  expect(metrics['monitor/thinking_correct']).toBeCloseTo(100, 9);
  expect(metrics).not.toHaveProperty(['monitor/thinking_wrong']);
});
