/** Hostile files: past findings stay fixed, and two minutes of mutations find nothing new. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { builtCli } from './helpers/cli';

const ROOT = join(__dirname, '..');
const keep = mkdtempSync(join(tmpdir(), 'acoer-fuzz-found-'));
afterAll(() => rmSync(keep, { recursive: true, force: true }));

/** `scripts/fuzz-files.mjs ...words`: its exit code and what it printed. */
function fuzz(...words: string[]): Promise<{ code: number | null; output: string }> {
  builtCli();
  const script = join(ROOT, 'scripts', 'fuzz-files.mjs');
  const child = spawn(process.execPath, [script, '--keep', keep, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)));
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })));
}

test.each([
  ['test/fixtures/fuzz', 30],
  ['test/fixtures/fuzz-corpus', 80],
])(
  'every file of %s is read or refused',
  async (folder, atLeast) => {
    const { code, output } = await fuzz('--replay', join(ROOT, folder));
    expect(output).toMatch(/, 0 findings\n$/);
    expect(Number(/(\d+) cases in/.exec(output)![1])).toBeGreaterThanOrEqual(atLeast);
    expect(code).toBe(0);
  },
  300_000,
);

test('mutated files of every kind are read or rejected', async () => {
  const { code, output } = await fuzz(
    '--seconds',
    '100',
    '--workers',
    '2',
    // The same cases every time, as many as the machine manages, so that a failure is caused by the change
    // under test. For new cases run: node scripts/fuzz-files.mjs --seed N.
    '--seed',
    '20261122',
  );
  expect(output).toMatch(/, 0 findings\n$/);
  expect(code).toBe(0);
}, 600_000);
