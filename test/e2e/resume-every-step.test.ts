/**
 * N steps straight are k steps, death, and N - k more, for every k, on the real engine: every metric, token and saved byte.
 * Between two steps nothing of a run happens, so a copy of its folder then is what a killed process leaves.
 */
import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEngine, type Engine } from '../../src';
import { train, type TrainOptions } from '../../src/grpo';
import { untimedFiles } from '../helpers/run-files';

jest.setTimeout(600_000);

const root = mkdtempSync(join(tmpdir(), 'acoer-every-step-'));
let engine: Engine;
beforeAll(async () => {
  engine = await createEngine({ device: 'cpu', threads: 1 });
});
afterAll(async () => {
  await engine.dispose();
  rmSync(root, { recursive: true, force: true });
});

const STEPS = 9;
const SHARED: TrainOptions = {
  preset: 'tiny',
  maxSteps: STEPS,
  promptsPerStep: 2,
  numIterations: 2,
  maxCompletionLength: 96,
  loraDropout: 0.05,
  evalSteps: 2,
  evalProblems: 6,
  evalSampledProblems: 6,
  evalMaxNewTokens: 96,
  completionsSteps: 1,
  keepCheckpoints: null,
};

const CASES: [string, TrainOptions][] = [
  ['a checkpoint at every step', { saveSteps: 1 }],
  [
    'a checkpoint at every third step, a KL term, several updates a batch',
    { saveSteps: 3, beta: 0.02, stepsPerGeneration: 2 },
  ],
];

test.each(CASES)('%s', async (_, settings) => {
  const folder = (step: number | string) => join(root, `${settings.saveSteps}-${step}`);
  const straight = await train({ ...SHARED, ...settings, engine, out: folder('straight') });
  for await (const { index } of straight) {
    cpSync(folder('straight'), folder(index), { recursive: true });
    rmSync(join(folder(index), 'lock.json'));
  }
  const expected = untimedFiles(folder('straight'));
  expect(expected.size).toBeGreaterThan(STEPS);
  for (let step = 1; step <= STEPS; step++) {
    expect(existsSync(join(folder(step), 'summary.json'))).toBe(false);
    const resumed = await train({ resume: folder(step), engine });
    await resumed.result();
    const found = untimedFiles(folder(step));
    expect([...found.keys()]).toEqual([...expected.keys()]);
    for (const [file, content] of expected) {
      expect({ step, file, content: found.get(file) }).toEqual({ step, file, content });
    }
  }
});
