/** Lines of metrics.jsonl that a power loss took: restored from checkpoints where they have them, else named. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Policy } from '../../src/engine/types';
import { createRunDirectory, MetricsFile, readMetrics, saveCheckpoint } from '../../src/run';
import { linesSince } from '../../src/run/metrics-file';

const root = mkdtempSync(join(tmpdir(), 'acoer-repair-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const policy = {
  save: async (path: string) => writeFileSync(path, 'adapter'),
  saveOptimizer: async (path: string) => writeFileSync(path, 'optimizer'),
} as unknown as Policy;
const content = { adapterConfig: {}, state: {}, rollouts: null };
const line = (step: number) => `{"step":${step},"loss":${step / 8}}`;
const linesOf = (steps: readonly number[]) => steps.map((step) => `${line(step)}\n`).join('');
const upTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1);

/** A run of 8 steps with checkpoints of 3, 6 and 8, of which `kept` are left. */
async function runOf(kept: readonly number[]) {
  const run = createRunDirectory(mkdtempSync(join(root, 'run-')), {});
  const file = await MetricsFile.open(run.metrics(), 0, fail);
  for (const step of upTo(8)) {
    await file.append({ step, loss: step / 8 });
    if ([3, 6, 8].includes(step)) await saveCheckpoint(run, step, policy, content);
  }
  file.close();
  for (const step of run.checkpointSteps()) {
    if (!kept.includes(step)) rmSync(run.checkpoint(step), { recursive: true });
  }
  return run;
}

const fail = (message: string) => {
  throw new Error(message);
};

/** Resumes at step 8 after metrics.jsonl was left with `bytes`; null: it is gone. */
async function resumed(kept: readonly number[], bytes: string | null) {
  const run = await runOf(kept);
  if (bytes === null) rmSync(run.metrics());
  else writeFileSync(run.metrics(), bytes);
  const warnings: string[] = [];
  const warn = (message: string) => warnings.push(message);
  (await MetricsFile.open(run.metrics(), 8, warn, run.savedMetrics)).close();
  const text = readFileSync(run.metrics(), 'utf8');
  return { text, warnings: warnings.map((message) => message.replaceAll(run.metrics(), 'metrics.jsonl')) };
}

const NULS = '\0'.repeat(50);
const restored = (steps: string) => `metrics.jsonl had lost the lines of ${steps}: restored from checkpoints.`; // prettier-ignore
const gone = (steps: string) =>
  `metrics.jsonl has lost the lines of ${steps}, and no checkpoint has them: their metrics are gone. The steps themselves are not affected.`;

test.each<[string, readonly number[], string | null, number[], string[]]>([
  ['nothing is lost', [8], linesOf(upTo(8)), [], []],
  ['NULs behind the lines of the checkpoint', [8], linesOf(upTo(8)) + NULS, [], []],
  ['NULs and later lines behind them', [8], `${linesOf(upTo(8))}${NULS}\n${line(10)}\n`, [], []],
  ['a torn line behind them', [8], `${linesOf(upTo(8))}{"step":9,"lo`, [], []],
  ['the last lines are NULs', [8], linesOf(upTo(6)) + NULS, [], [restored('steps 7-8')]],
  ['a torn line', [8], `${linesOf(upTo(7))}{"step":8,"lo`, [], [restored('step 8')]],
  ['a line in the middle', [3, 6, 8], `${linesOf(upTo(3))}${NULS}\n${linesOf([5, 7, 8])}`, [], [restored('steps 4, 6')]],
  ['the whole file, all checkpoints', [3, 6, 8], null, [], [restored('steps 1-8')]],
  ['the whole file, one checkpoint', [8], null, [1, 2, 3, 4, 5], [restored('steps 6-8'), gone('steps 1-5')]],
  ['a line that no checkpoint has', [8], linesOf([1, 3, 4, 5, 6, 7, 8]), [2], [gone('step 2')]],
])('%s', async (_, kept, bytes, lost, told) => {
  const { text, warnings } = await resumed(kept, bytes);
  expect(text).toBe(linesOf(upTo(8).filter((step) => !lost.includes(step))));
  expect(warnings).toEqual(told);
}); // prettier-ignore

test('a checkpoint has the lines since the one before it, that one’s included', async () => {
  const run = await runOf([3, 6, 8]);
  const steps = (step: number) => readMetrics(join(run.checkpoint(step), 'metrics.jsonl')).map((one) => one.step);
  expect([3, 6, 8].map(steps)).toEqual([[1, 2, 3], [3, 4, 5, 6], [6, 7, 8]]);
  expect(readFileSync(join(run.checkpoint(8), 'SHA256SUMS'), 'utf8')).toContain('metrics.jsonl');
  expect(readdirSync(run.checkpoints())).toHaveLength(3);
}); // prettier-ignore

test('the last lines of a long file are found from its end', () => {
  const path = join(root, 'long.jsonl');
  const long = (step: number) => `{"step":${step},"x":${'1'.repeat(300)}}\n`;
  const text = (from: number) => upTo(3000).slice(from - 1).map(long).join(''); // prettier-ignore
  writeFileSync(path, text(1));
  for (const from of [1, 2, 1500, 2800, 3000, 3001]) expect(linesSince(path, from)).toBe(text(from));
  expect(linesSince(join(root, 'absent'), 1)).toBe('');
});
