/** What the monitor reads: growing answers, batches on several lines, names. */
import { METRICS } from '../../src/base/metric-names';
import {
  bareContext,
  EVALUATED,
  initialMonitorState,
  monitorSettings,
  observe,
  READ,
  type HealthChange,
} from '../../src/monitor';
import type { KnownMetrics } from '../../src/base/metric-names';

const settings = monitorSettings({ preset: 'default' });

function changesOf(
  count: number,
  of: (step: number) => KnownMetrics,
  context = bareContext(8),
  given = settings,
) {
  const changes: HealthChange[] = [];
  let state = initialMonitorState();
  for (let step = 1; step <= count; step++) {
    const line = {
      step,
      'accuracy/mean': 0.8,
      'thinking/mean': 100,
      'completions/mean_length': 120,
      ...of(step),
    };
    const seen = observe(state, line, given, context);
    // A repeated line, as after a crash, changes nothing.
    expect(observe(seen.state, line, given, context)).toEqual({ state: seen.state, change: null });
    state = seen.state;
    if (seen.change !== null) changes.push(seen.change);
  }
  return changes;
}

describe('reasoning that moves past </think>', () => {
  const moved = (step: number): KnownMetrics => (step > 30 ? { 'thinking/mean': 50 } : {});

  test('is a warning, by the metric or by its estimate', () => {
    for (const length of ['completions/mean_length', 'completions/answer_length'] as const) {
      const before = length === 'completions/mean_length' ? 120 : 20;
      const after = length === 'completions/mean_length' ? 120 : 70;
      const of = (step: number) => ({ ...moved(step), [length]: step > 30 ? after : before });
      const [change] = changesOf(80, of);
      expect(change).toMatchObject({ to: 'warning' });
      expect(change!.reason).toMatch(/^Warning: reasoning moves past <\/think>: /);
    }
  });

  test('is no warning if answers or thinking keep their length', () => {
    expect(changesOf(80, (step) => ({ ...moved(step), 'completions/answer_length': 20 }))).toEqual([]);
    expect(changesOf(80, (step) => ({ 'completions/answer_length': step }))).toEqual([]);
  });
});

test('several updates from one batch count it once', () => {
  const batchOf = (step: number) => ({ num_tokens: Math.ceil(step / 4), 'accuracy/mean': 0.5 });
  let state = initialMonitorState();
  for (let step = 1; step <= 40; step++) {
    const line = { step, 'thinking/mean': 100, ...batchOf(step) };
    state = observe(state, line, settings, { ...bareContext(8), updatesPerBatch: 4 }).state;
  }
  expect(state.accuracy.groups).toBe(80);
});

test('every name that the monitor reads is a metric', () => {
  const names = [READ, EVALUATED.greedy, EVALUATED.sampled].flatMap((of) => Object.values<string>(of));
  expect(names.filter((name) => !Object.hasOwn(METRICS, name))).toEqual([]);
});
