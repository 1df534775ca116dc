/** A run that has nothing to learn from warns once, with the likely cause. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train } from '../../src/train';
import { registerReward } from '../../src/rewards/registry';
import { acoer } from '../helpers/cli';
import { fakeRun, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-no-signal-'));
afterAll(() => {
  removeFakeRuns();
  rmSync(root, { recursive: true, force: true });
});

const SAID = /had nothing to learn from/;

async function warningsOf(more: Given): Promise<string[]> {
  const said: string[] = [];
  const onEvent: Given['onEvent'] = (event) => {
    if (event.type === 'warning' && SAID.test(event.message)) said.push(event.message);
  };
  await (await train(...asCall(fakeRun({ evalProblems: 0, saveSteps: 0, ...more, onEvent })))).result();
  return said;
}

test('the embedded model with completions too short to end', async () => {
  const settings = ['maxCompletionLength=2', 'promptsPerStep=1', 'evalProblems=0', 'evalSampledProblems=0'];
  const words = [
    ...settings.flatMap((one) => ['--set', one]),
    '--max-steps',
    '56',
    '--out',
    join(root, 'short'),
  ];
  const { code, stderr } = await acoer('train', '--preset', 'tiny', ...words);
  const cause = 'every completion was cut off at maxCompletionLength = 2; raise it';
  expect(stderr).toContain(`warning: The last 50 steps had nothing to learn from: ${cause}.`);
  expect(stderr.match(new RegExp(SAID, 'g'))).toHaveLength(1);
  expect(code).toBe(0);
});

test('equal rewards are counted in steps and reported once per stretch', async () => {
  registerReward('equal-but-once', (_, group) => (group.prompt.index === 60 ? Math.random() : 1));
  const equal = { reward: 'equal-but-once', formatWeight: 0, promptsPerStep: 1 };
  expect(await warningsOf({ ...equal, maxSteps: 49 })).toEqual([]);
  const said = await warningsOf({ ...equal, maxSteps: 115 });
  expect(said).toHaveLength(2);
  for (const one of said) expect(one).toMatch(/^The last 50 steps .*equal rewards/);
  expect(await warningsOf({ ...equal, maxSteps: 50, numIterations: 2 })).toHaveLength(1);
});

test('a run that learns gets no warning', async () => {
  registerReward('tells-apart', ({ sample }) => sample);
  expect(await warningsOf({ reward: 'tells-apart', maxSteps: 60, promptsPerStep: 1 })).toEqual([]);
});
