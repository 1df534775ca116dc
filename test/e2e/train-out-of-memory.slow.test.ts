/** Runs of the embedded model with less memory than they request. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train, type TrainSettings } from '../../src/train';
import type { MetricName } from '../../src/base/metric-names';
import { completionTables, readCompletions, readMetrics } from '../../src/run';
import { ended, spawnAcoer } from '../helpers/cli';
import { untimedFiles } from '../helpers/run-files';

const root = mkdtempSync(join(tmpdir(), 'acoer-train-oom-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const SETTINGS: TrainSettings = {
  preset: 'tiny',
  device: 'cpu',
  threads: 1,
  maxSteps: 3,
  evalProblems: 50,
  evalSampledProblems: 0,
  saveSteps: 1,
  completionsSteps: 1,
};
/** A step of this run takes 180 MB of tensors in one pass of 5,150 tokens. */
const LIMIT = 20e6;
/** Decoding one completion at a time needs 5.5 to 6 MB, training on one sequence 8 to 10. */
const TOO_LITTLE = 7e6;

const metricsOf = (folder: string) => readMetrics(join(folder, 'metrics.jsonl'));
const textsOf = async (folder: string) => {
  const tables = await Promise.all(completionTables(folder).map(readCompletions));
  return tables.flat().map(({ step, promptIndex, completion }) => ({ step, promptIndex, completion }));
};

async function runTo(name: string, changes: TrainSettings) {
  const out = join(root, name);
  const warnings: string[] = [];
  const run = await train(
    { ...SETTINGS, ...changes },
    {
      out,
      ignorePlan: true,
      onEvent: (event) => {
        if (event.type === 'warning') warnings.push(event.message);
      },
    },
  );
  await run.result();
  return { out, warnings };
}

let plain: string;
let limited: string;
let warnings: string[];
beforeAll(async () => {
  plain = (await runTo('plain', {})).out;
  ({ out: limited, warnings } = await runTo('limited', { memoryLimitBytes: LIMIT }));
});

test('passes are split until they fit: the same completions, the same numbers up to rounding', async () => {
  const [whole, cut] = [metricsOf(plain), metricsOf(limited)];
  expect(whole.map((line) => line['micro_batches'])).toEqual([1, 1, 1]);
  for (const [i, line] of cut.entries()) {
    expect(line['micro_batches']).toBeGreaterThan(1);
    expect(line['memory/peak_tensor_bytes']).toBeLessThanOrEqual(LIMIT);
    const apart = (name: MetricName) => Math.abs(line[name]! / whole[i]![name]! - 1);
    for (const name of ['loss', 'entropy', 'reward', 'completions/mean_length'] as const) {
      expect(apart(name)).toBeLessThan(1e-6);
    }
    // Advantages cancel in the gradient, so float32 rounds more of it, differently on every processor. That
    // split passes have the same gradients is tested in float64 (test/native/out-of-memory).
    expect(apart('grad_norm')).toBeLessThan(1e-5);
  }
  expect(await textsOf(limited)).toEqual(await textsOf(plain));
  // Learnt in the first step, then kept.
  expect(new Set(cut.map((line) => line['memory/micro_batch_tokens'])).size).toBe(1);
  expect(warnings.length).toBeGreaterThan(0);
  expect(warnings.every((message) => message.startsWith('Out of memory in training'))).toBe(true);
});

test('stopped and resumed: byte for byte the uninterrupted run, without learning the limit again', async () => {
  const out = join(root, 'resumed');
  const run = await train({ ...SETTINGS, memoryLimitBytes: LIMIT }, { out, ignorePlan: true });
  await run.next();
  run.stop();
  await expect(run.result()).rejects.toMatchObject({ code: 'INTERRUPTED' });
  const again: string[] = [];
  const resumed = await train(
    {},
    {
      resume: out,
      ignorePlan: true,
      onEvent: (event) => {
        if (event.type === 'warning') again.push(event.message);
      },
    },
  );
  await resumed.result();
  expect(again).toEqual([]);
  expect(untimedFiles(out)).toEqual(untimedFiles(limited));
});

test('too little for one sequence: exit 1 with a sentence, and the run can resume with more', async () => {
  const out = join(root, 'too-little');
  const begun = await train(SETTINGS, { out, ignorePlan: true });
  await begun.next();
  begun.stop();
  await begun.result().catch(() => undefined);
  const resume = (limit: string) =>
    ended(spawnAcoer('train', '--resume', out, '--ignore-plan', '--set', `memoryLimitBytes=${limit}`));
  const failed = await resume(String(TOO_LITTLE));
  expect(failed.code).toBe(1);
  const last = failed.stderr.trimEnd().split('\n').at(-1)!;
  expect(last).toMatch(/Out of memory in training on one sequence of \d+ tokens/);
  expect(last).toMatch(/raise memoryLimitBytes .* lower maxCompletionLength/);
  expect(last).toContain(`acoer train --resume ${out}`);
  expect(readdirSync(join(out, 'checkpoints')).filter((name) => !/^step-\d+$/.test(name))).toEqual([]);
  expect(metricsOf(out)).toHaveLength(1);
  expect((await resume('null')).code).toBe(0);
  expect(await textsOf(out)).toEqual(await textsOf(plain));
});
