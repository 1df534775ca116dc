/** The user's own losses, and what the corrections do to an update of a run. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import type { ConfigInput } from '../../src/config';
import { train } from '../../src/train';
import { listLosses, registerLoss, resolveLoss, sumOverTokens, type LossDefinition } from '../../src/losses';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeDataset, fakeTokenizer } from '../helpers/fake-tokenizer';
import { recordingLoss } from '../helpers/recording-loss';

const root = mkdtempSync(join(tmpdir(), 'acoer-losses-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let runs = 0;

async function run(settings: ConfigInput) {
  const engine = new FakeEngine();
  const out = join(root, `run-${runs++}`);
  const started = await train(
    {
      model: 'tiny',
      maxSteps: 2,
      evalProblems: 0,
      evalSampledProblems: 0,
      completionsSteps: 0,
      maxCompletionLength: 60,
      ...settings,
    },
    { out, engine, tokenizer: fakeTokenizer, trainData: fakeDataset(30) },
  );
  const lines = [];
  for await (const { metrics } of started) lines.push(metrics);
  return { lines, engine };
}

const parameters = { factor: z.number().positive().default(2).describe('What the loss is multiplied by.') };
const own = (name: string, changes: object = {}): LossDefinition<typeof parameters> => ({
  name,
  summary: 'REINFORCE.',
  formula: '1/T sum -factor A logprob',
  parameters,
  usesDelta: false,
  normalizer: ({ tokens }) => tokens,
  compute(batch, settings, { factor }) {
    const added = sumOverTokens(batch, settings, {
      ruleOf:
        ({ advantage }) =>
        (term, _, logprob) => {
          term.loss = -factor * advantage * logprob;
          term.slopeLogprob = -factor * advantage;
          term.slopeRatio = 0;
        },
    });
    return { ...added, measures: {} };
  },
  metrics: () => ({}),
  ...changes,
});

test("a user's loss trains, with its parameters from the configuration", async () => {
  registerLoss(own('doubled'));
  const once = await run({ lossType: 'doubled', lossParams: { doubled: { factor: 1 } }, maxSteps: 1 });
  const twice = await run({ lossType: 'doubled', maxSteps: 1 });
  expect(once.lines[0]!.loss).not.toBe(0);
  expect(twice.lines[0]!.loss).toBeCloseTo(2 * once.lines[0]!.loss!, 12);
  expect(twice.lines[0]!.grad_norm).toBeCloseTo(2 * once.lines[0]!.grad_norm!, 12);
});

test('built-in names are reserved, and a loss needs a name', () => {
  expect(() => registerLoss(own('grpo'))).toThrow('built in');
  expect(() => registerLoss(own(''))).toThrow('must not be empty');
  expect(listLosses().map(({ name }) => name)).toContain('vespo');
});

test('wrong parameters and unknown names give one sentence', () => {
  registerLoss(own('checked'));
  expect(() => resolveLoss('checked', { factor: -1 })).toThrow(
    'lossParams.checked.factor: must be above 0, not -1',
  );
  expect(() => resolveLoss('checked', { facto: 1 })).toThrow('did you mean `factor`?');
  expect(() => resolveLoss('nonesuch')).toThrow('Unknown loss "nonesuch"');
});

test('too few slopes end the run; a loss that is not finite refuses the step', async () => {
  const wrong = { loss: 0, slopes: new Float64Array(1), klSum: 0, measures: {} };
  registerLoss(own('short', { compute: () => wrong }));
  await expect(run({ lossType: 'short' })).rejects.toThrow(
    /Loss "short" returned 1 slopes for \d+ completion tokens/,
  );
  registerLoss(
    own('bad', {
      compute: (batch: { logprobs: Float64Array }) => ({
        ...wrong,
        slopes: new Float64Array(batch.logprobs.length).fill(NaN),
      }),
    }),
  );
  const { lines } = await run({ lossType: 'bad', maxSteps: 1 });
  expect(lines[0]).toMatchObject({ update_applied: 0 });
});

describe('corrections in a run', () => {
  test('all are off by default', async () => {
    const loss = recordingLoss('dapo');
    await run({ lossType: loss.name });
    expect(loss.batches.length).toBeGreaterThan(0);
    for (const batch of loss.batches) expect(batch).toMatchObject({ importanceWeights: null, kept: null });
  });

  test('weights come from the log-probs of the forward pass on-policy, and from scored ones under dropout', async () => {
    const loss = recordingLoss('dapo');
    const corrected = { lossType: loss.name, importanceSamplingCorrection: 'token_truncate' } as const;
    const { lines, engine } = await run(corrected);
    expect(engine.model!.scoreCalls).toBe(0);
    expect(loss.batches.every(({ importanceWeights }) => importanceWeights !== null)).toBe(true);
    // The fake engine samples and trains with the same numbers.
    expect(lines[0]).toMatchObject({
      'sampling/importance_sampling_ratio/min': 1,
      'sampling/importance_sampling_ratio/max': 1,
    });
    const dropped = await run({ ...corrected, loraDropout: 0.1 });
    expect(dropped.engine.model!.scoreCalls).toBeGreaterThan(0);
  });

  test('the share of tokens kept is that of the update, however it is split', async () => {
    const shareOf = async (microBatchTokens: number) => {
      const loss = recordingLoss('dapo');
      const { lines } = await run({
        lossType: loss.name,
        topEntropyQuantile: 0.25,
        microBatchTokens,
        maxSteps: 1,
      });
      const kept = loss.batches.flatMap((batch) => [...batch.kept!]);
      return {
        line: lines[0]!,
        share: kept.reduce((a, b) => a + b, 0) / kept.length,
        passes: loss.batches.length,
      };
    };
    const [whole, cut] = [await shareOf(1e6), await shareOf(300)];
    expect(cut.passes).toBeGreaterThan(whole.passes);
    expect(cut.line.grad_norm).toBeCloseTo(whole.line.grad_norm!, 12);
    expect(cut.share).toBe(whole.share);
    expect(whole.share).toBeGreaterThan(0.15);
    expect(whole.share).toBeLessThan(0.4);
  });
});
