/** ACOER's controller in the loop: advances once per generated batch, never by evaluation, and is saved. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train, type TrainSettings } from '../../src/train';
import type { AcoerState } from '../../src/rewards/acoer/controller';
import { readMetrics } from '../../src/run';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeDataset, fakeEvaluation, fakeTokenizer } from '../helpers/fake-tokenizer';

const root = mkdtempSync(join(tmpdir(), 'acoer-controller-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let runs = 0;

async function runOf(more: TrainSettings) {
  const out = join(root, `run-${runs++}`);
  const run = await train(
    {
      maxSteps: 12,
      maxCompletionLength: 40,
      learningRate: 100,
      evalProblems: 0,
      evalSampledProblems: 0,
      saveSteps: 6,
      completionsSteps: 0,
      reward: 'acoer',
      rewardParams: { acoer: { warmupSteps: 4, checkWindow: 2, minBudget: 5 } },
      ...more,
    },
    {
      engine: new FakeEngine(),
      tokenizer: fakeTokenizer,
      trainData: fakeDataset(30),
      evalData: fakeEvaluation(30),
      out,
    },
  );
  await run.result();
  const stateAt = (step: number) => {
    const name = `step-${String(step).padStart(6, '0')}`;
    const text = readFileSync(join(out, 'checkpoints', name, 'state.json'), 'utf8');
    return (JSON.parse(text) as { loop: { rewardStates: { acoer: AcoerState } } }).loop.rewardStates.acoer;
  };
  const alphas = readMetrics(join(out, 'metrics.jsonl')).map((line) => line['acoer/alpha']!);
  return { alphas, stateAt };
}

test('it first moves at the batch whose step, counted from 0, is warmupSteps', async () => {
  const { alphas } = await runOf({});
  expect(alphas.slice(0, 4)).toEqual([0.02, 0.02, 0.02, 0.02]);
  expect(alphas[4]).not.toBe(0.02);
});

test('updates that share a generated batch advance it only once', async () => {
  const { alphas, stateAt } = await runOf({
    numIterations: 3,
    rewardParams: { acoer: { warmupSteps: 0, checkWindow: 50 } },
  });
  expect(alphas).toEqual(new Array(12).fill(0.02));
  expect(stateAt(12).accuracyHistory).toHaveLength(4);
});

test('evaluations between steps do not change its course', async () => {
  const silent = await runOf({});
  const evaluated = await runOf({
    evalSteps: 1,
    evalProblems: 10,
    evalSampledProblems: 10,
    evalMaxNewTokens: 60,
  });
  expect(evaluated.alphas).toEqual(silent.alphas);
  expect(evaluated.stateAt(12)).toEqual(silent.stateAt(12));
});

test('a checkpoint holds its whole state', async () => {
  const { stateAt } = await runOf({});
  expect(Object.keys(stateAt(6)).sort()).toEqual([
    'accuracyHistory',
    'alpha',
    'budget',
    'emaAccuracy',
    'emaCorrectLength',
  ]);
});
