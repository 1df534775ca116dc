/** A run with `numSpeculativeTokens`: the same completions, and two numbers in its metrics. */
import type { StepMetrics } from '../../src/base/types';
import { train } from '../../src/train';
import { filesOf, metricsOf, newFolder, removeFakeRuns, toldRun } from '../helpers/fake-run';

afterAll(removeFakeRuns);

const PROPOSED = 'sampling/speculation/proposed';
const ACCEPTED = 'sampling/speculation/accepted';

test('training and evaluation decode so, and nothing is weighed', async () => {
  const { told, warnings, lines } = await toldRun('numSpeculativeTokens', { numSpeculativeTokens: 5 });
  expect(told).toEqual([5]);
  expect(warnings).toEqual([]);
  for (const line of lines) {
    expect(line).toMatchObject({ [PROPOSED]: 0, [ACCEPTED]: 0 });
    expect(line).not.toHaveProperty(['sampling/importance_sampling_ratio/mean']);
  }
});

const MINE = [PROPOSED, ACCEPTED];

async function runOf(more: object) {
  const out = newFolder();
  const settings = {
    ...{ model: 'tiny', maxSteps: 2, promptsPerStep: 2, numGenerations: 4, maxCompletionLength: 96 },
    ...{ evalProblems: 4, evalSampledProblems: 0, completionsSteps: 1, device: 'cpu', threads: 1 },
  } as const;
  await (await train({ ...settings, ...more }, { out })).result();
  const files = Object.entries(filesOf(out)).filter(([path]) =>
    /^(completions\/|final\/.*tensors$)/.test(path),
  );
  return { files: Object.fromEntries(files), lines: metricsOf(out) };
}

function expectCounted(lines: readonly StepMetrics[]): void {
  expect(lines).toHaveLength(2);
  for (const line of lines) {
    expect(line[ACCEPTED]).toBeGreaterThan(0);
    expect(line[ACCEPTED]).toBeLessThanOrEqual(line[PROPOSED]!);
  }
}

test('completions, weights and all other numbers are those of a run without it', async () => {
  const plain = await runOf({});
  const faster = await runOf({ numSpeculativeTokens: 4 });
  expect(Object.keys(plain.files).length).toBeGreaterThan(2);
  expect(faster.files).toEqual(plain.files);
  for (const line of plain.lines) for (const name of MINE) expect(line).not.toHaveProperty([name]);
  expectCounted(faster.lines);
  const others = faster.lines.map((line) =>
    Object.fromEntries(Object.entries(line).filter(([name]) => !MINE.includes(name))),
  );
  expect(others).toEqual(plain.lines);
});

test('with groups in flight the tokens are counted, too', async () => {
  const { lines } = await runOf({ groupsInFlight: 4 });
  for (const line of lines) for (const name of MINE) expect(line).not.toHaveProperty([name]);
  expectCounted((await runOf({ groupsInFlight: 4, numSpeculativeTokens: 4 })).lines);
});
