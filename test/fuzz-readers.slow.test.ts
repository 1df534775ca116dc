/** Hostile input: past findings stay fixed, new mutations find nothing, and the fuzzer itself gets on. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { builtCli } from './helpers/cli';

const ROOT = join(__dirname, '..');
const keep = mkdtempSync(join(tmpdir(), 'acoer-fuzz-found-'));
const corpus = mkdtempSync(join(tmpdir(), 'acoer-fuzz-corpus-'));
afterAll(() => [keep, corpus].forEach((folder) => rmSync(folder, { recursive: true, force: true })));

/** `scripts/fuzz-readers.mjs ...words`: its exit code and what it printed. */
function fuzz(...words: string[]): Promise<{ code: number | null; output: string }> {
  builtCli();
  const script = join(ROOT, 'scripts', 'fuzz-readers.mjs');
  const child = spawn(process.execPath, [script, '--keep', keep, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)));
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })));
}

test.each([
  ['test/fixtures/fuzz', 50],
  ['test/fixtures/fuzz-corpus', 300],
])(
  'every file of %s is read or refused',
  async (folder, atLeast) => {
    const { code, output } = await fuzz('--replay', join(ROOT, folder));
    expect(output).toMatch(/, 0 findings\n$/);
    expect(Number(/(\d+) cases in/.exec(output)![1])).toBeGreaterThanOrEqual(atLeast);
    expect(code).toBe(0);
  },
  900_000,
);

test('mutations of every kind are read or rejected, and whole files are read', async () => {
  const { code, output } = await fuzz(
    '--cpu-seconds',
    '6',
    '--workers',
    '2',
    // The same cases every time, as many as the time allows, so that a failure is caused by the change under
    // test. For new cases run it guided: node scripts/fuzz-readers.mjs.
    '--unguided',
    '--seed',
    '20261122',
  );
  expect(output).toMatch(/, 0 findings\n$/);
  expect(code).toBe(0);
}, 900_000);

describe('guided', () => {
  type Spent = Record<'cpuSeconds' | 'cases' | 'blocksAtFirst' | 'blocks' | 'blocksKnown', number>;
  const spent = (folder: string): Spent | undefined => {
    const path = join(folder, 'record.json');
    return existsSync(path)
      ? (JSON.parse(readFileSync(path, 'utf8')) as { verify?: Spent }).verify
      : undefined;
  };

  test('blocks are counted, in threads too, and are new only once', () => {
    const code = `
      const { Coverage } = require('./scripts/lib/fuzz-coverage.cjs');
      const { verifyAnswer } = require('./packages/verify/dist/index.js');
      const { KINDS } = require('./scripts/lib/fuzz-kinds.cjs');
      const { writeFileSync } = require('node:fs');
      const coverage = new Coverage();
      const fresh = async (work) => {
        coverage.clear();
        await work();
        return coverage.fresh().length / 2;
      };
      (async () => {
        const easy = () => verifyAnswer('7', '\\\\boxed{7}');
        const hard = () => verifyAnswer('(1, 2]', '\\\\boxed{x \\\\in (1, 2]}');
        const path = process.env.FUZZ_FOLDER + '/rows.parquet';
        writeFileSync(path, (await KINDS.data.seeds())['rows.parquet']);
        const rows = () => KINDS.data.read(path);
        const counts = [await fresh(easy), await fresh(easy), await fresh(easy), await fresh(hard), await fresh(rows)];
        console.log(JSON.stringify({ counts }));
      })();`;
    const child = spawnSync(process.execPath, ['--require', './scripts/lib/fuzz-coverage.cjs', '-e', code], {
      cwd: ROOT,
      env: { ...process.env, FUZZ_CODE: join(corpus, 'code'), FUZZ_FOLDER: corpus, NODE_OPTIONS: '' },
      encoding: 'utf8',
    });
    expect(child.stderr).toBe('');
    const { counts } = JSON.parse(child.stdout) as { counts: number[] };
    const [first, , third, hard, rows] = counts;
    expect(first).toBeGreaterThan(100);
    expect(third).toBe(0);
    expect(hard).toBeGreaterThan(50);
    expect(rows).toBeGreaterThan(500);
  });

  test('sittings add up', async () => {
    // On top of what the repository's record says was spent before.
    const before = spent(join(ROOT, 'test/fixtures/fuzz-corpus'))?.cpuSeconds ?? 0;
    const words = ['verifier', '--corpus', corpus, '--cpu-seconds', String(before + 5)];
    const { code, output } = await fuzz(...words);
    expect(output).toMatch(/, 0 findings\n$/);
    expect(code).toBe(0);
    const { blocksAtFirst, blocks, blocksKnown, cases, cpuSeconds } = spent(corpus)!;
    expect(blocksAtFirst).toBeGreaterThan(1000);
    expect(blocks).toBeGreaterThan(blocksAtFirst);
    expect(blocksKnown).toBeGreaterThan(blocks);
    expect(cpuSeconds).toBeGreaterThanOrEqual(before + 5);
    // The time is spent: nothing more is read.
    expect((await fuzz(...words)).output).toMatch(/^verify: 0 cases/);
    expect(spent(corpus)!.cases).toBe(cases);
  }, 900_000);
});
