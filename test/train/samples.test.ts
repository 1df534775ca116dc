/** The completions that a run prints (`logCompletions`) and keeps (`completionsSteps`), and when. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { train, type TrainEvent } from '../../src/train';
import { fakeRun, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

type Sample = TrainEvent & { type: 'sample' };

async function samplesOf(more: Given): Promise<{ samples: Sample[]; tables: string[] }> {
  const samples: Sample[] = [];
  const onEvent = (event: TrainEvent) => void (event.type === 'sample' && samples.push(event));
  const run = await train(
    ...asCall(fakeRun({ maxSteps: 12, evalProblems: 0, saveSteps: 0, onEvent, ...more })),
  );
  await run.result();
  return { samples, tables: readdirSync(join(run.directory, 'completions')).sort() };
}

test('one every logCompletions steps, of median length in its batch', async () => {
  const { samples, tables } = await samplesOf({ logCompletions: 5, completionsSteps: 4 });
  expect(samples.map(({ step }) => step)).toEqual([5, 10]);
  expect(tables).toEqual([4, 8, 12].map((step) => `step-${String(step).padStart(6, '0')}.parquet`));
  for (const { row } of samples) {
    expect(row.rollout.text.length).toBeGreaterThan(0);
    expect(Number.isFinite(row.reward.total)).toBe(true);
    expect(Number.isFinite(row.advantage)).toBe(true);
  }
});

test('none with 0', async () => {
  expect((await samplesOf({ logCompletions: 0 })).samples).toEqual([]);
});

test('where a batch serves several steps, the batch of the due step counts', async () => {
  // Batches are generated at steps 1, 4, 7, 10; steps 5 and 10 are due, and 6 and 12.
  const { samples, tables } = await samplesOf({
    stepsPerGeneration: 3,
    logCompletions: 5,
    completionsSteps: 6,
  });
  expect(samples.map(({ step }) => step)).toEqual([4, 10]);
  expect(tables).toEqual(['step-000004.parquet', 'step-000010.parquet']);
});
