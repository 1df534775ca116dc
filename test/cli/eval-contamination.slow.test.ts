/** `acoer eval --run` says how many of a benchmark's problems the run was trained on. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { acoer } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-contamination-'));
afterAll(() => rmSync(folder, { recursive: true }));

const rows = Array.from({ length: 50 }, (_, i) => {
  const [a, b] = [1 + (i % 9), 1 + Math.floor(i / 9)];
  return { problem: `${a}+${b}-1+2+3 mod 10?`, answer: String((a + b + 4) % 10) };
});
const written = (name: string, from: number, to: number): string => {
  const path = join(folder, name);
  writeFileSync(
    path,
    rows
      .slice(from, to)
      .map((row) => `${JSON.stringify(row)}\n`)
      .join(''),
  );
  return path;
};

test('problems that were trained on are counted', async () => {
  const run = join(folder, 'run');
  const train = written('train.jsonl', 0, 40);
  const settings = [`dataset=${train}`, 'evalProblems=0', 'evalSampledProblems=0'].flatMap((set) => [
    '--set',
    set,
  ]);
  const trained = await acoer('train', ...settings, '--max-steps', '1', '--out', run);
  expect({ ...trained, stdout: '' }).toMatchObject({ code: 0 });
  const evaluate = async (...words: string[]) => {
    const { code, stdout } = await acoer(
      'eval',
      '--run',
      run,
      '--out',
      join(folder, `eval-${words.length}`),
      ...words,
    );
    expect(code).toBe(0);
    return stdout;
  };
  const benchmark = written('bench.jsonl', 36, 46);
  expect(await evaluate('--benchmark', benchmark)).toContain(
    'contamination: 4 of 10 problems of bench are also in the training data, 0 nearly.',
  );
  expect(await evaluate('--benchmark', benchmark, '--json')).not.toContain('contamination:');
});

test('of what a run held out nothing was trained on', async () => {
  const run = join(folder, 'held-out');
  const settings = [
    `dataset=${written('all.jsonl', 0, 50)}`,
    'evalProblems=4',
    'evalSampledProblems=0',
  ].flatMap((set) => ['--set', set]);
  expect((await acoer('train', ...settings, '--max-steps', '1', '--out', run)).code).toBe(0);
  const { code, stdout } = await acoer('eval', '--run', run, '--out', join(folder, 'eval-own'));
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /contamination: 0 of \d+ problems of all are also in the training data, 0 nearly\.\n/,
  );
});
