/** A run with keys and values in int8: everything that decodes is told so, and the loss weighs the difference. */
import { removeFakeRuns, toldRun } from '../helpers/fake-run';

afterAll(removeFakeRuns);

test('training and evaluation decode so, and the correction is on', async () => {
  const { told, warnings, lines } = await toldRun('kvCacheDtype', { kvCacheDtype: 'int8' });
  expect(told).toEqual(['int8']);
  expect(warnings).toEqual([]);
  for (const line of lines) expect(line).toHaveProperty(['sampling/importance_sampling_ratio/mean']);
});

test('by default the cache has the type of the model, and nothing is weighed', async () => {
  const { told, lines } = await toldRun('kvCacheDtype', {});
  expect(told).toEqual(['auto']);
  for (const line of lines) expect(line).not.toHaveProperty(['sampling/importance_sampling_ratio/mean']);
});

test('without the correction a warning says whose log-probs are trained on', async () => {
  const { warnings } = await toldRun('kvCacheDtype', {
    kvCacheDtype: 'int8',
    importanceSamplingCorrection: null,
  });
  expect(warnings).toEqual([
    "importanceSamplingCorrection is null: an int8 cache's log-probs are trained on as if they were the trainer's own.",
  ]);
});
