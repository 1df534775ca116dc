/** A short real run on the embedded model, for what uses the result of one. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train } from '../../src/train';

/** Steps 2 and 4 are checkpoints; the rate is high enough for other answers after them. */
export async function tinyRun(): Promise<{ path: string; remove: () => void }> {
  const root = mkdtempSync(join(tmpdir(), 'acoer-tiny-run-'));
  const path = join(root, 'run');
  const settings = {
    model: 'tiny',
    dataset: 'tiny',
    maxSteps: 4,
    saveSteps: 2,
    promptsPerStep: 2,
    numGenerations: 4,
  };
  const small = { learningRate: 2e-3, evalProblems: 4, evalSampledProblems: 0, maxCompletionLength: 48 };
  const run = await train({ ...settings, ...small }, { out: path });
  await run.result();
  return { path, remove: () => rmSync(root, { recursive: true, force: true }) };
}
