/** A batch that updates are being made from, stored and restored, also without the sampler's entropies. */
import type { OpenBatch, Sample } from '../../src/grpo/sample';
import { decodeSafetensors, encodeSafetensors } from '../../src/run/safetensors';
import { train, type SamplerMaker } from '../../src/train';
import { openBatchTensors, restoreOpenBatch } from '../../src/train/open-batch';
import { fakeParts, fakeRun, metricsOf, removeFakeRuns } from '../helpers/fake-run';
import { asCall } from '../helpers/given';

afterAll(removeFakeRuns);

const sampleOf = (sample: number, entropies: number[] | null): Sample => ({
  promptIndex: 3,
  sample,
  promptIds: Int32Array.of(1, 2),
  completionIds: Int32Array.of(7, 8, 9),
  sampledLogprobs: Float64Array.of(-1, -2, -3),
  entropies: entropies && Float64Array.from(entropies),
  reward: 1,
  advantage: 0.5,
  masked: false,
  skipped: sample === 0,
  oldLogprobs: sample === 0 ? null : Float64Array.of(-1.5, -2.5, -3.5),
  refLogprobs: null,
});

test.each<[string, (number[] | null)[]]>([
  ['known', [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]],
  ['known for one sample', [null, [0.4, 0.5, 0.6]]],
  ['unknown', [null, null]],
])('entropies that are %s come back', (_, entropies) => {
  const samples = entropies.map((own, sample) => sampleOf(sample, own));
  const batch: OpenBatch = { samples, tokens: 6, metrics: { reward: 1 }, updatesDone: 1 };
  const stored = decodeSafetensors(encodeSafetensors(openBatchTensors(batch)), 'f');
  expect(restoreOpenBatch(batch, stored)).toEqual(batch);
}); // prettier-ignore

const withoutEntropies: SamplerMaker = ({ engineSampler }) => ({
  follow: (version) => engineSampler.follow(version),
  sample: (prompts, settings, onCompletion) =>
    engineSampler.sample(prompts, settings, (completion) => onCompletion({ ...completion, entropies: null })),
});

test('a run without entropies goes on in the middle of a batch', async () => {
  const given = () =>
    fakeRun({ maxSteps: 4, numIterations: 2, saveSteps: 1, evalProblems: 0, sampler: withoutEntropies });
  const whole = given();
  await (await train(...asCall(whole))).result();
  const left = given();
  const first = await train(...asCall(left));
  await first.next();
  await first.return();
  const parts = { ...fakeParts(), sampler: withoutEntropies };
  await (await train(...asCall({ ...parts, resume: left.out }))).result();
  expect(metricsOf(left.out)).toEqual(metricsOf(whole.out));
  expect(metricsOf(whole.out)).toHaveLength(4);
});
