/** A sampler that disagrees with the trainer: a warning, and far off the end of the run with a checkpoint. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { train, type SamplerMaker, type TrainEvent } from '../../src/train';
import { Mismatch } from '../../src/train/mismatch';
import { isEngineSampler } from '../../src/config';
import { fakeParts, fakeRun, metricsOf, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

/** The steps (from 1) at which it says something, and whether it ends the run. */
function observed(values: (number | undefined)[]) {
  const mismatch = new Mismatch();
  const said: number[] = [];
  values.forEach((value, i) => {
    const metrics = { step: i + 1, ...(value !== undefined && { 'sampling/mismatch_kl': value }) };
    if (mismatch.observe(metrics) !== null) said.push(i + 1);
  });
  return { said, ends: mismatch.ending !== null };
}

const times = <T>(count: number, value: T): T[] => new Array<T>(count).fill(value);

test.each<[string, (number | undefined)[], number[], boolean]>([
  ['agreement', times(50, 1e-4), [], false],
  ['19 steps above', times(19, 0.06), [], false],
  ['at the limit', times(50, 0.05), [], false],
  ['20 steps above', times(20, 0.06), [20], false],
  ['once a run', [...times(30, 0.06), 0.01, ...times(30, 0.06)], [20], false],
  ['a step below begins again', [...times(19, 0.06), 0.04, ...times(20, 0.06)], [40], false],
  ['steps without it do not count', [...times(10, 0.06), undefined, NaN, ...times(10, 0.06)], [22], false],
  ['far above', times(20, 0.6), [20], true],
  ['far above for 19 steps', [...times(10, 0.06), ...times(19, 0.6), 0.5], [20], false],
  ['beyond numbers', times(20, Infinity), [20], true],
])('%s', (_, values, said, ends) => {
  expect(observed(values)).toEqual({ said, ends });
});

test('the sentences name the mean', () => {
  const mismatch = new Mismatch();
  const said = times(20, 0).map((_, i) => mismatch.observe({ step: i + 1, 'sampling/mismatch_kl': i < 10 ? 0.6 : 0.8 }));
  expect(said.at(-1)).toMatch(/^For 20 steps .* was 0\.700 on average; .*docs\/external-sampler\.md\.$/);
  expect(mismatch.ending).toMatchObject({ code: 'SAMPLER_FAILED' });
  expect(mismatch.ending!.message).toMatch(/^The run ended after step 20\. For 20 steps .* 0\.700 .*--resume\.$/);
}); // prettier-ignore

/** Says that each token was less likely than it was, by `nats`. */
const off =
  (nats: number): SamplerMaker =>
  ({ engineSampler }) => ({
    follow: (version) => engineSampler.follow(version),
    sample: (prompts, settings, onCompletion) =>
      engineSampler.sample(prompts, settings, (completion) =>
        onCompletion({ ...completion, logprobs: completion.logprobs.map((value) => value - nats) }),
      ),
  });

async function run(changes: Given) {
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => void (event.type === 'warning' && warnings.push(event.message));
  const given = fakeRun({ maxSteps: 25, evalProblems: 0, saveSteps: 0, promptsPerStep: 2, ...changes, onEvent });
  const result = (await train(...asCall(given))).result();
  return { out: given.out, result, warned: () => warnings.filter((one) => /mismatch_kl/.test(one)) };
} // prettier-ignore

test('a run whose sampler is off by 0.4 nats warns once and goes on', async () => {
  const { out, result, warned } = await run({ sampler: off(0.4) });
  await result;
  expect(metricsOf(out).at(-1)!['sampling/mismatch_kl']).toBeCloseTo(Math.exp(0.4) - 0.4 - 1, 9);
  expect(warned()).toHaveLength(1);
});

test('one that is off by 1.2 nats ends with a checkpoint, and goes on with another sampler', async () => {
  const { out, result } = await run({ sampler: off(1.2) });
  await expect(result).rejects.toMatchObject({ code: 'SAMPLER_FAILED' });
  // Steps without an advantage measure nothing.
  const lines = metricsOf(out);
  expect(lines.filter((line) => line['sampling/mismatch_kl'] !== undefined)).toHaveLength(20);
  expect(lines.at(-1)!['sampling/mismatch_kl']).toBeCloseTo(Math.exp(1.2) - 1.2 - 1, 9);
  expect(readdirSync(join(out, 'checkpoints'))).toContain(`step-0000${lines.length}`);
  const again = await train(...asCall({ ...fakeParts(), resume: out, sampler: 'engine' }));
  expect((await again.result()).run.steps).toBe(25);
});

test('the engine is not watched', () => {
  expect(isEngineSampler({ sampler: 'engine' })).toBe(true);
  expect(isEngineSampler({ sampler: { name: 'engine', params: {} } })).toBe(true);
  expect(isEngineSampler({ sampler: { name: './own.mjs', params: {} } })).toBe(false);
});
