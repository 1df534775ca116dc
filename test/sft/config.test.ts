/** The settings of a supervised run: those of train, with the few defaults that differ, and hints for others. */
import { resolveConfig } from '../../src/config';
import { resolveSft, sftSchema, describeSft } from '../../src/sft/config';

const refused = (message: string | RegExp) =>
  expect.objectContaining({ code: 'BAD_CONFIG', message: expect.stringMatching(message) as string }) as Error;

test('defaults', () => {
  const config = resolveSft([{ dataset: 'a.jsonl' }]);
  expect(config).toMatchObject({
    learningRate: 1e-4,
    lrSchedulerType: 'linear',
    warmupRatio: 0,
    weightDecay: 0,
    batchSize: 8,
    epochs: 3,
    maxSteps: null,
    maxLength: 4096,
    loraRank: 16,
  });
});

test('the embedded model is asked as train asks it', () => {
  const asked = resolveConfig([{ model: 'tiny' }]).promptTemplate;
  expect(resolveSft([{ dataset: 'a.jsonl', model: 'tiny' }]).promptTemplate).toBe(asked);
  const own = resolveSft([{ dataset: 'a.jsonl', model: 'tiny', promptTemplate: 'x{problem}' }]);
  expect(own.promptTemplate).toBe('x{problem}');
});

test('later layers win, and undefined says nothing', () => {
  const config = resolveSft([
    { dataset: 'a.jsonl', seed: 1 },
    { seed: 2, dataset: undefined },
  ]);
  expect([config.dataset, config.seed]).toEqual(['a.jsonl', 2]);
});

test.each([
  [{}, /^Configuration: dataset: name the training data/],
  [{ dataset: 'a', learningRat: 1 }, /learningRat: unknown setting; did you mean `learningRate`\?$/],
  [{ dataset: 'a', num_train_epochs: 1 }, /num_train_epochs: unknown setting; use `epochs` instead$/],
  [{ dataset: 'a', perDeviceTrainBatchSize: 1 }, /perDeviceTrainBatchSize: unknown setting; use `batchSize` instead$/],
  [{ dataset: 'a', warmup_steps: 1 }, /warmup_steps: unknown setting; use `warmupRatio` instead/],
  [{ dataset: 'a', eval_strategy: 'steps' }, /eval_strategy: unknown setting; use `evalSteps` instead$/],
  [{ dataset: 'a', packing: true }, /packing: unknown setting; leave it out: passes are always packed/],
  [{ dataset: 'a', completion_only_loss: true }, /completion_only_loss: unknown setting; leave it out: the loss is always on the completion only$/],
  [{ dataset: 'a', numGenerations: 2 }, /numGenerations: unknown setting; it is a setting of `acoer train` only$/],
  [{ dataset: 'a', epochs: 0 }, /epochs: must be at least 1, not 0$/],
  [{ dataset: 'a', columns: { mesages: 'm' } }, /columns\.mesages: unknown setting/],
  [{ dataset: 'a', promptTemplate: 'Solve.' }, /promptTemplate: has no \{problem\}, so every prompt would be the same/],
])('%j is refused', (layer, message) => {
  expect(() => resolveSft([layer as never])).toThrow(refused(message));
}); // prettier-ignore

test('every setting is described', () => {
  for (const name of Object.keys(sftSchema.shape)) expect(describeSft()).toContain(`- \`${name}\` (`);
});
