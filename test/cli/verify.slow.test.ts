import type { Verdict } from '../../src/base/types';
import { ended, linesFile, objects, spawnAcoer } from '../helpers/cli';

interface BadLine {
  error: string;
  line: number;
}

const pair = (n: number) => ({ gold: `${n}`, pred: `So \\boxed{${n % 7 === 0 ? n + 1 : n}}` });

test('one verdict per line, in order, from a file and from standard input', async () => {
  const lines = Array.from({ length: 3_000 }, (_, n) => pair(n));
  const fromFile = await ended(spawnAcoer('verify', linesFile(lines)));
  expect({ code: fromFile.code, stderr: fromFile.stderr }).toEqual({ code: 0, stderr: '' });
  const verdicts = objects<Verdict>(fromFile.stdout);
  expect(verdicts.length).toBe(3_000);
  verdicts.forEach((verdict, n) => {
    expect(Object.keys(verdict)).toEqual(['correct', 'status', 'extracted']);
    expect([verdict.extracted, verdict.correct]).toEqual([`${n % 7 === 0 ? n + 1 : n}`, n % 7 !== 0]);
  });
  const child = spawnAcoer('verify');
  child.stdin.end(lines.map((line) => JSON.stringify(line)).join('\n'));
  expect((await ended(child)).stdout).toBe(fromFile.stdout);
});

test('a bad line is reported in its place, the others are graded, and the exit code is 1', async () => {
  const { code, stdout, stderr } = await ended(
    spawnAcoer(
      'verify',
      linesFile([
        pair(1),
        'not json',
        { gold: '1' },
        { gold: 1, pred: '1' },
        '',
        [1],
        { ...pair(2), config: { rounding: 1 } },
        pair(3),
      ]),
    ),
  );
  const rows = objects<Verdict & BadLine>(stdout);
  expect(rows.map((row) => row.line ?? row.status)).toEqual(['correct', 2, 3, 4, 6, 7, 'correct']);
  expect(rows[1]!.error).toContain('not JSON');
  expect(rows[2]!.error).toBe('"pred" must be a string.');
  expect(rows[5]!.error).toBe('config: unknown option rounding.');
  expect(code).toBe(1);
  expect(stderr).toBe('acoer: 5 lines could not be read; see "error" in the output.\n');
});

test('a verdict is written while the input is still open', async () => {
  const child = spawnAcoer('verify');
  const result = ended(child);
  for (const n of [1, 2]) {
    const answered = new Promise<string>((resolve) => {
      child.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    });
    child.stdin.write(`${JSON.stringify(pair(n))}\n`);
    expect(objects<Verdict>(await answered)).toEqual([
      { correct: true, status: 'correct', extracted: `${n}` },
    ]);
  }
  child.stdin.end();
  expect((await result).code).toBe(0);
});

test('config and --preset', async () => {
  const lines = [
    { gold: '\\frac13', pred: '\\boxed{0.33}', config: { float_rounding: 2 } },
    { gold: '0.5', pred: '\\boxed{\\frac12}' },
  ];
  const statuses = async (...flags: string[]): Promise<string[]> =>
    objects<Verdict>((await ended(spawnAcoer('verify', ...flags, linesFile(lines)))).stdout).map(
      ({ status }) => status,
    );
  expect(await statuses()).toEqual(['correct', 'correct']);
  expect(await statuses('--preset', 'trl')).toEqual(['correct', 'unparseable']);
});

test.each([
  [['--preset', 'best'], 'preset'],
  [['/no/such/file'], 'Cannot read'],
])('%j is bad usage', async (words, message) => {
  const { code, stdout, stderr } = await ended(spawnAcoer('verify', ...words));
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(message);
});

test('empty input gives empty output', async () => {
  const { code, stdout, stderr } = await ended(spawnAcoer('verify', linesFile([])));
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '', stderr: '' });
});
