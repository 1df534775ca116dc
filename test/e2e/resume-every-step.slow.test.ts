/**
 * N uninterrupted steps equal k steps, a crash, and N - k more, for every k, on the real engine: every
 * metric, token and saved byte. Nothing happens between two steps, so a copy of the run's folder then is what
 * a killed process leaves.
 */
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEngine, type AcoerError, type Engine } from '../../src';
import { train, type TrainOptions, type TrainSettings } from '../../src/train';
import { copyAsCrashed, untimedFiles } from '../helpers/run-files';

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
const SHARED: TrainSettings = {
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

const CASES: [string, TrainSettings][] = [
  ['a checkpoint at every step', { saveSteps: 1 }],
  [
    'a checkpoint at every third step, a KL term, several updates per batch',
    { saveSteps: 3, beta: 0.02, stepsPerGeneration: 2 },
  ],
  [
    // Once the averages have enough groups, every batch counts as a collapse: two rollbacks, then the end.
    'with rollbacks',
    {
      saveSteps: 2,
      onCollapse: 'rollback',
      maxRollbacks: 2,
      monitor: {
        spanGroups: 4,
        collapseAccuracyDrop: 0,
        collapseZ: null,
        collapseThinkingRatio: 100,
        collapseSteps: 2,
      },
    },
  ],
];

const rollbacksOf = (folder: string) => {
  const path = join(folder, 'rollbacks.json');
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as object[]) : [];
};

/** The error code a run ends with; null: it finishes. `onStep` is called after each step. */
async function endOf(
  settings: TrainSettings,
  options: TrainOptions,
  onStep: (index: number) => void = () => undefined,
) {
  try {
    for await (const { index } of await train(settings, { ...options, engine })) onStep(index);
    return null;
  } catch (error) {
    return (error as AcoerError).code;
  }
}

async function expectSameEnd(copy: string, expected: Map<string, unknown>, end: string | null) {
  expect(await endOf({}, { resume: copy })).toBe(end);
  const found = untimedFiles(copy);
  expect([...found.keys()]).toEqual([...expected.keys()]);
  for (const [file, content] of expected) {
    expect({ copy, file, content: found.get(file) }).toEqual({ copy, file, content });
  }
}

test.each(CASES)('%s', async (name, settings) => {
  const folder = join(root, name.replace(/\W+/g, '-'));
  const copies: string[] = [];
  const end = await endOf({ ...SHARED, ...settings }, { out: folder }, (index) => {
    const copy = `${folder}-${copies.length + 1}-step-${index}`;
    copyAsCrashed(folder, copy);
    copies.push(copy);
  });
  const expected = untimedFiles(folder);
  const rollbacks = rollbacksOf(folder);
  const withRollbacks = settings.onCollapse === 'rollback';
  expect({ end, rollbacks: rollbacks.length }).toEqual(
    withRollbacks ? { end: 'COLLAPSED', rollbacks: 2 } : { end: null, rollbacks: 0 },
  );
  expect(copies.length).toBeGreaterThanOrEqual(withRollbacks ? 3 : STEPS);
  for (const [i, copy] of copies.entries()) {
    const made = rollbacksOf(copy).length;
    const madeNext = rollbacksOf(copies[i + 1] ?? folder).length;
    if (madeNext > made) {
      // As if it died after deciding on the next rollback, before carrying out any of it.
      const halfway = `${copy}-halfway`;
      cpSync(copy, halfway, { recursive: true });
      const taken = `rolled-back-${made + 1}.jsonl`;
      cpSync(join(folder, taken), join(halfway, taken));
      const decided = [...rollbacks.slice(0, made), { ...rollbacks[made], done: false }];
      writeFileSync(join(halfway, 'rollbacks.json'), JSON.stringify(decided));
      await expectSameEnd(halfway, expected, end);
    }
    await expectSameEnd(copy, expected, end);
  }
});
