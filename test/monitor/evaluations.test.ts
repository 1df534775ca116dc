/** If a run has evaluations between its steps, they decide about a collapse. */
import { initialMonitorState, monitorSettings, observe, type MonitorContext } from '../../src/monitor';
import type { StepMetrics } from '../../src/base/types';

const EVERY = 25;
const settings = monitorSettings({ preset: 'default' });
const context: MonitorContext = {
  groupsPerBatch: 8,
  updatesPerBatch: 1,
  base: { accuracy: 0.7, thinkingTokens: 138 },
  evaluations: { kind: 'sampled', problems: 500 },
};

/** The steps at which a run with these evaluations, one every 25 steps, is declared collapsed. */
function collapses(evaluations: readonly number[], thinking = 37, accuracy = 0.95): number[] {
  let state = initialMonitorState();
  const found: number[] = [];
  for (let step = 1; step <= EVERY * evaluations.length; step++) {
    const line: StepMetrics = { step, 'accuracy/mean': accuracy, 'thinking/mean': thinking };
    if (step % EVERY === 0) {
      line['eval/sampled_accuracy'] = evaluations[step / EVERY - 1]!;
      line['eval/sampled_thinking_tokens'] = thinking;
    }
    const seen = observe(state, line, settings, context);
    state = seen.state;
    if (seen.change?.to === 'collapsed') found.push(step);
  }
  return found;
}

test('two evaluations in a row far below the best one are a collapse', () => {
  expect(collapses([0.95, 0.8, 0.78, 0.77])).toEqual([75]);
});

test('a dip that the next evaluation does not confirm is not a collapse', () => {
  expect(collapses([0.93, 0.81, 0.97, 0.97, 0.8, 0.97])).toEqual([]);
});

test('a difference within the noise of 500 problems is not a collapse', () => {
  expect(collapses([0.9, 0.84, 0.84, 0.85])).toEqual([]);
});

test('long thinking is not a collapse, nor are two low evaluations below a lower base', () => {
  expect(collapses([0.95, 0.6, 0.6], 100)).toEqual([]);
  expect(collapses([0.72, 0.71, 0.7])).toEqual([]);
});

test('batches alone never declare a collapse', () => {
  let state = initialMonitorState();
  for (let step = 1; step <= 400; step++) {
    const line = { step, 'accuracy/mean': step <= 200 ? 0.95 : 0.5, 'thinking/mean': 37 };
    state = observe(state, line, settings, context).state;
  }
  expect(state.health).toBe('warning');
  const alone = { ...context, evaluations: null };
  state = initialMonitorState();
  for (let step = 1; step <= 400; step++) {
    const line = { step, 'accuracy/mean': step <= 200 ? 0.95 : 0.5, 'thinking/mean': 37 };
    state = observe(state, line, settings, alone).state;
  }
  expect(state.health).toBe('collapsed');
});
