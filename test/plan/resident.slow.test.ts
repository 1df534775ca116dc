/**
 * Predicted versus measured resident memory of runs on this CPU. For larger shapes: node
 * scripts/studies/plan-check.mjs.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readMetrics } from '../../src/run';
import { builtCli, ended, ROOT, spawnAcoer } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-plan-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the embedded run takes what was planned, within 15%', async () => {
  // Nearly all answers are cut off at this length, so the run meets the largest batch, which the plan counts.
  const length = ['--set', 'maxCompletionLength=128'];
  const planned = await ended(spawnAcoer('plan', '--no-measure', '--json', ...length));
  const { memory } = JSON.parse(planned.stdout) as { memory: { peakBytes: number } };
  const out = join(folder, 'tiny');
  // V8 lets its young generation grow up to 48 MB where objects are made fast, which no plan can know.
  const small = [
    '--max-semi-space-size=1',
    builtCli(),
    'train',
    '--out',
    out,
    '--max-steps',
    '20',
    ...length,
  ];
  const { status, stderr } = spawnSync(process.execPath, small, { encoding: 'utf8' });
  expect({ status, stderr }).toMatchObject({ status: 0 });
  const lines = readMetrics(join(out, 'metrics.jsonl'));
  const measured = Math.max(...lines.map((line) => line['memory/peak_resident_bytes']!));
  expect(memory.peakBytes / measured).toBeGreaterThan(0.85);
  expect(memory.peakBytes / measured).toBeLessThan(1.15);
});

test('random models of 10 M parameters take what was planned: activations kept or recomputed, all weights trained', () => {
  builtCli();
  const script = join(ROOT, 'scripts', 'studies', 'plan-check.mjs');
  const words = [script, '10M-fp32-small', '10M-fp32', '10M-fp32-full'];
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' });
  expect({ status, stdout, stderr }).toMatchObject({ status: 0, stderr: '' });
  expect(stdout.match(/measured/g)).toHaveLength(3);
});
