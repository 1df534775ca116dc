/** A run with groups in flight: completions go on over updates, none gets too old, and a kill changes nothing. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { train } from '../../src/train';
import { fakeParts, fakeRun, metricsOf, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';
import { copyKilledAfter, untimedFiles } from '../helpers/run-files';

afterAll(removeFakeRuns);

const N = 9;
const given = (more: Given = {}) =>
  fakeRun({
    maxSteps: N,
    promptsPerStep: 2,
    numGenerations: 4,
    groupsInFlight: 5,
    maxStaleness: 3,
    reward: 'acoer',
    saveSteps: 1,
    completionsSteps: 1,
    ...more,
  });

async function runOf(more: Given = {}): Promise<string> {
  const settings = given(more);
  await (await train(...asCall(settings))).result();
  return settings.out;
}

const stateAt = (folder: string, step: number) => {
  const path = join(folder, 'checkpoints', `step-${String(step).padStart(6, '0')}`);
  return JSON.parse(readFileSync(join(path, 'state.json'), 'utf8')) as {
    loop: { cursor: number };
    inFlight?: { promptIndex: number; begun: number }[];
  };
};

let whole: string;
beforeAll(async () => {
  whole = await runOf();
});

test('tokens are of earlier weights, but of none older than allowed', () => {
  const lines = metricsOf(whole);
  expect(lines).toHaveLength(N);
  expect(lines[0]!['sampling/staleness/max']).toBe(0);
  expect(lines.some((line) => line['sampling/staleness/max']! > 1)).toBe(true);
  for (const line of lines) {
    expect(line['sampling/staleness/max']).toBeLessThanOrEqual(3);
    expect(line['sampling/staleness/mean']).toBeLessThanOrEqual(line['sampling/staleness/max']!);
  }
  // Ratios of the weights that train to those that sampled.
  expect(lines.slice(1).some((line) => line['sampling/importance_sampling_ratio/max'] !== 1)).toBe(true);
});

test('every prompt is trained on once, and none is left in flight at the end', () => {
  expect(stateAt(whole, 1).inFlight).toHaveLength(3);
  expect(stateAt(whole, N).inFlight).toBeUndefined();
  expect(stateAt(whole, N).loop.cursor).toBe(2 * N);
});

test.each([1, 2, 4, 5, N - 1])('killed after step %i', async (k) => {
  const folder = copyKilledAfter(whole, k, newFolder());
  await (await train(...asCall({ ...fakeParts(), resume: folder }))).result();
  expect(untimedFiles(folder)).toEqual(untimedFiles(whole));
});

test('with several updates of a batch, stopped after each', async () => {
  const more = { numIterations: 2, maxStaleness: 6, saveSteps: 0 };
  const straight = await runOf(more);
  const left = given(more);
  let run = await train(...asCall(left));
  for (let step = 1; ; step++) {
    await run.next();
    if (step === N) break;
    await run.return();
    run = await train(...asCall({ ...fakeParts(), resume: left.out }));
  }
  await run.result();
  expect(metricsOf(left.out)).toEqual(metricsOf(straight));
});

test('a refused generation leaves out all groups in flight', async () => {
  let calls = 0;
  const nonFinite = (call: string) => call === 'generate' && ++calls === 60;
  const folder = await runOf({ ...fakeParts({ nonFinite }), nonFinitePolicy: 'skip' });
  const lines = metricsOf(folder);
  const refused = lines.findIndex((line) => line['update_applied'] === 0);
  expect(refused).toBeGreaterThan(0);
  expect(lines[refused + 1]!['sampling/staleness/max']).toBe(0);
  expect(lines).toHaveLength(N);
});

test('a fork under other settings begins new groups', async () => {
  const out = newFolder();
  const more = { ...fakeParts(), fork: { run: whole, at: 4 }, out, groupsInFlight: 6 };
  await (await train(...asCall(more))).result();
  expect(metricsOf(out)[4]!['sampling/staleness/max']).toBe(0);
});

test('without groups in flight nothing of them is written', async () => {
  const folder = await runOf({ groupsInFlight: null });
  expect(metricsOf(folder).some((line) => 'sampling/staleness/max' in line)).toBe(false);
  expect(stateAt(folder, 3).inFlight).toBeUndefined();
  expect(existsSync(join(folder, 'checkpoints', 'step-000003', 'rollouts.safetensors'))).toBe(false);
});

test.each<[Given, RegExp]>([
  [{ groupsInFlight: 2 }, /groupsInFlight: is 2, but must be above promptsPerStep = 2/],
  [{ maxStaleness: 1 }, /maxStaleness: is 1, but groupsInFlight = 5 groups need at least 2/],
  [{ sampler: 'sampler.mjs' }, /groupsInFlight: needs the engine as the sampler/],
])('%j is refused', async (more, message) => {
  await expect(train(...asCall(given(more)))).rejects.toThrow(message);
});

test('the embedded model on the engine, stopped and resumed', async () => {
  const tiny = (): Given => ({
    ...{ model: 'tiny', dataset: 'tiny', promptsPerStep: 1, numGenerations: 4, groupsInFlight: 3 },
    ...{ maxSteps: 7, learningRate: 2e-3, maxCompletionLength: 48, maxSlots: 8 },
    ...{ evalProblems: 0, evalSampledProblems: 0, saveSteps: 1, out: newFolder() },
  });
  const [straight, left] = [tiny(), tiny()];
  await (await train(...asCall(straight))).result();
  const lines = metricsOf(straight['out'] as string);
  expect(Math.max(...lines.map((line) => line['sampling/staleness/max']!))).toBeGreaterThan(0);
  // On tokens of its own weights the trainer's log-probs are the sampler's.
  for (const line of lines) {
    if (line['sampling/staleness/max'] !== 0 || line['sampling/mismatch_kl'] === undefined) continue;
    expect(line['sampling/mismatch_kl']).toBeLessThan(1e-9);
  }
  let run = await train(...asCall(left));
  for (const _ of [1, 2, 3]) {
    await run.next();
    await run.return();
    run = await train(...asCall({ resume: left['out'] }));
  }
  await run.result();
  expect(metricsOf(left['out'] as string)).toEqual(lines);
});
