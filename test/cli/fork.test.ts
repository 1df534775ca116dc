import { forkCall } from '../../src/cli/fork';
import { ProgressView } from '../../src/cli/view/progress';

test('a fork takes the run, the step and only the settings given', () => {
  const flags = { at: 40, set: ['reward=acc', 'learningRate=1e-4'], seed: 7, out: 'runs/b' };
  expect(forkCall('runs/a', flags)).toEqual([
    { reward: 'acc', learningRate: 1e-4, seed: 7 },
    { fork: { run: 'runs/a', at: 40 }, out: 'runs/b' },
  ]);
});

test('a fork without --at is rejected', () => {
  expect(() => forkCall('runs/a', { set: [] })).toThrow('--at is required');
});

test('the view reports why the health of a run changed, and where a rollback went', () => {
  const lines: string[] = [];
  const view = new ProgressView({ write: (text) => lines.push(text) });
  const reason = 'Collapse: it fell.';
  view.onEvent({ type: 'health', change: { step: 80, from: 'warning', to: 'collapsed', reason } });
  view.onEvent({ type: 'rollback', rollback: { number: 1, from: 80, to: 40, pressure: 0.1, reason } });
  expect(lines).toEqual([
    'monitor    step 80: warning -> collapsed. Collapse: it fell.\n',
    'rollback 1: from step 80 to the checkpoint of step 40, efficiency pressure 0.1, other seeds\n',
  ]);
});
