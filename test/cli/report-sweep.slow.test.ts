/** `acoer report` on a sweep. How its tables are made is in test/sweep. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { acoer } from '../helpers/cli';
import { writeSweep } from '../helpers/swept-runs';

const root = mkdtempSync(join(tmpdir(), 'acoer-report-sweep-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let sweep: string;
beforeAll(async () => {
  sweep = await writeSweep(join(root, 'sweep'), [{ method: 'acoer', seed: 1 }], 20);
});

test('--paper prints the tables in the format asked for and writes nothing', async () => {
  const markdown = await acoer('report', sweep, '--paper');
  expect(markdown).toMatchObject({ code: 0, stderr: '' });
  expect(markdown.stdout).toMatch(/^### Table 1: rewards\n[^]*### Table 3: main results\n/);
  expect((await acoer('report', sweep, '--paper', '--format', 'tex')).stdout).toContain(
    String.raw`\begin{tabular}`,
  );
  expect((await acoer('report', sweep, '--paper', '--format', 'csv')).stdout).toMatch(/^table,row,column,/);
  expect(existsSync(join(sweep, 'report.html'))).toBe(false);
});

test('without it the report and the tables are written beside the runs', async () => {
  expect((await acoer('report', sweep)).code).toBe(0);
  for (const name of ['report.html', 'table.md', 'table.csv', 'table.tex'])
    expect(existsSync(join(sweep, name))).toBe(true);
  const out = join(root, 'elsewhere.html');
  expect((await acoer('report', sweep, '--out', out, '--title', 'Mine')).stdout).toContain(out);
});

test.each([
  [['RUN', '--paper'], 'name the folder of one'],
  [['SWEEP', '--format', 'tex'], '--format goes with --paper'],
  [['SWEEP', 'RUN'], 'cannot be reported on together with the sweep'],
  [['SWEEP', '--paper', '--title', 'x'], '--paper prints and writes no page'],
  [['SWEEP', '--paper', '--format', 'pdf'], 'Allowed choices are md, csv, tex'],
])('acoer report %p is refused in a sentence', async (words, message) => {
  const paths: Record<string, string> = { RUN: join(sweep, 'runs/acoer-s1'), SWEEP: sweep };
  const { code, stderr } = await acoer('report', ...words.map((word) => paths[word] ?? word));
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) as string });
});
