/** `acoer train` as a process whose environment fails. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readMetrics } from '../../src/run';
import { ended, reached, spawnAcoer } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-train-faults-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const SHORT = ['--max-steps', '8', '--set', 'evalProblems=0', '--set', 'evalSampledProblems=0'];

test('the run survives when the reader of its output goes away', async () => {
  const path = join(folder, 'pipe');
  const child = spawnAcoer('train', '--out', path, ...SHORT);
  child.stdout.destroy();
  child.stderr.destroy();
  const code = await new Promise((resolve) => child.on('exit', resolve));
  expect(code).toBe(0);
  expect(readMetrics(join(path, 'metrics.jsonl'))).toHaveLength(8);
  expect(existsSync(join(path, 'summary.json'))).toBe(true);
});

test('a second process on the run is rejected; a second signal ends it at once; the run can be resumed', async () => {
  const path = join(folder, 'signals');
  const child = spawnAcoer('train', '--out', path, ...SHORT);
  const end = ended(child);
  const metrics = join(path, 'metrics.jsonl');
  await reached(child, end, () => existsSync(metrics) && readFileSync(metrics, 'utf8') !== '');
  const second = ended(spawnAcoer('train', '--resume', path));
  child.kill('SIGSTOP');
  const { code: refused, stderr } = await second;
  expect(stderr).toContain(`is in use by process ${child.pid}`);
  expect(refused).toBe(2);
  child.kill('SIGTERM');
  child.kill('SIGINT');
  child.kill('SIGCONT');
  expect((await end).code).toBe(130);
  const resumed = await ended(spawnAcoer('train', '--resume', path));
  expect(resumed.code).toBe(0);
  const steps = readMetrics(metrics).map((line) => line.step);
  expect(steps).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(readdirSync(path).filter((name) => name.startsWith('.') || name === 'lock.json')).toEqual([]);
});
