/** A run with keys and values in int8: everything that decodes is told so, and the loss weighs the difference. */
import { train, type TrainEvent } from '../../src/train';
import type { GenerateCallOptions, Model } from '../../src/engine/types';
import { fakeParts, fakeRun, metricsOf, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

async function runOf(more: Given) {
  const parts = fakeParts();
  const told = new Set<GenerateCallOptions['kvCacheDtype']>();
  const load = parts.engine.loadModel.bind(parts.engine);
  parts.engine.loadModel = async (...given: Parameters<typeof load>) => {
    const model: Model = await load(...given);
    const generate = model.generate.bind(model);
    model.generate = (requests, options) => {
      told.add(options?.kvCacheDtype);
      return generate(requests, options);
    };
    return model as Awaited<ReturnType<typeof load>>;
  };
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => void (event.type === 'warning' && warnings.push(event.message));
  const settings = fakeRun({ ...parts, maxSteps: 2, evalSteps: 1, onEvent, ...more });
  await (await train(...asCall(settings))).result();
  return { told: [...told], warnings, lines: metricsOf(settings.out) };
}

test('training and evaluation decode so, and the correction is on', async () => {
  const { told, warnings, lines } = await runOf({ kvCacheDtype: 'int8' });
  expect(told).toEqual(['int8']);
  expect(warnings).toEqual([]);
  for (const line of lines) expect(line).toHaveProperty(['sampling/importance_sampling_ratio/mean']);
});

test('by default the cache has the type of the model, and nothing is weighed', async () => {
  const { told, lines } = await runOf({});
  expect(told).toEqual(['auto']);
  for (const line of lines) expect(line).not.toHaveProperty(['sampling/importance_sampling_ratio/mean']);
});

test('without the correction a warning says whose log-probs are trained on', async () => {
  const { warnings } = await runOf({ kvCacheDtype: 'int8', importanceSamplingCorrection: null });
  expect(warnings).toEqual([
    "importanceSamplingCorrection is null: an int8 cache's log-probs are trained on as if they were the trainer's own.",
  ]);
});
