/** 300 steps of the embedded run, during which the process must not grow. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readMetrics } from '../../src/run';
import { builtCli, ended } from '../helpers/cli';

jest.setTimeout(600_000);

const folder = mkdtempSync(join(tmpdir(), 'acoer-train-memory-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// Garbage that V8 has yet to collect comes to 30 MB, more than the growth to be found. With a small heap it
// collects sooner.
const SMALL_HEAP = '--max-old-space-size=64';

test('resident memory grows by less than 5% after step 50', async () => {
  const out = join(folder, 'run');
  const words = ['train', '--out', out, '--max-steps', '300'];
  const { code, stderr } = await ended(spawn(process.execPath, [SMALL_HEAP, builtCli(), ...words]));
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  const resident = readMetrics(join(out, 'metrics.jsonl')).map((line) => line['memory/resident_bytes']!);
  expect(resident).toHaveLength(300);
  expect(Math.max(...resident.slice(50))).toBeLessThan(1.05 * resident[49]!);
});
