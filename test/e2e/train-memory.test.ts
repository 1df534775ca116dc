/** 300 steps of the embedded run, during which the process must not grow. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readMetrics } from '../../src/run';
import { ended, spawnAcoer } from '../helpers/cli';

jest.setTimeout(600_000);

const folder = mkdtempSync(join(tmpdir(), 'acoer-train-memory-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('resident memory grows by less than 5% after step 50', async () => {
  const out = join(folder, 'run');
  const { code, stderr } = await ended(spawnAcoer('train', '--out', out, '--max-steps', '300'));
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  const resident = readMetrics(join(out, 'metrics.jsonl')).map((line) => line['memory/resident_bytes']!);
  expect(resident).toHaveLength(300);
  expect(Math.max(...resident.slice(50))).toBeLessThan(1.05 * resident[49]!);
});
