/** The npm package: what it contains and leaves out, where its pages lead, and that the changelog has its version. */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';

const ROOT = join(__dirname, '..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

/** Paths of the files that `npm pack` includes. */
function packed(): Set<string> {
  const words = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const { stdout } = spawnSync('npm', words, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 26 });
  const answer = JSON.parse(stdout) as unknown;
  // npm 10 prints a list, npm 11 and later may print an object by name.
  const [first] = Object.values(answer as Record<string, { files: { path: string }[] }>);
  return new Set(first!.files.map(({ path }) => path));
}

/** What only those who change acoer read: they have the repository. */
const RECORDS = /^docs\/(decisions|log|measurements)(\/|$)/;

test('records of the work, maps of sources that are not there and developers’ scripts are left out', () => {
  const needless = [RECORDS, /\.map$/, /^scripts\/lib\/(fuzz-|study|elf|random)/, /\.(o|a|node)$/];
  expect([...packed()].filter((path) => needless.some((pattern) => pattern.test(path)))).toEqual([]);
});

test('links in packed pages lead to packed files, or to records in the repository', () => {
  const paths = packed();
  const pages = [...paths].filter((path) => path.endsWith('.md') && !path.startsWith('dist/'));
  expect(pages).toEqual(
    expect.arrayContaining(['README.md', 'SECURITY.md', 'docs/metrics.md', 'docs/from-trl.md']),
  );
  const folders = new Set([...paths].flatMap((path) => [dirname(path)]));
  const dead = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)/g)]
      .map(([, target]) => normalize(join(dirname(page), target!)).replace(/\/$/, ''))
      .filter((target) => !paths.has(target) && !folders.has(target))
      .filter((target) => !(RECORDS.test(target) && existsSync(join(ROOT, target))))
      .map((target) => `${page} -> ${target}${existsSync(join(ROOT, target)) ? ' (not packed)' : ''}`),
  );
  expect(dead).toEqual([]);
});

test('the changelog begins with the version of the package', () => {
  const { version } = JSON.parse(read('package.json')) as { version: string };
  const [, heading] = /^## (.*)$/m.exec(read('CHANGELOG.md'))!;
  // A released version has a date, any other is marked as unreleased.
  expect(heading).toMatch(
    new RegExp(`^${version.replaceAll('.', '\\.')}, (unreleased|\\d{4}-\\d{2}-\\d{2})$`),
  );
});

describe('acoer/verify and acoer/rewards', () => {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-entries-'));
  const installed = join(folder, 'node_modules', 'acoer');
  afterAll(() => rmSync(folder, { recursive: true }));

  beforeAll(() => {
    mkdirSync(installed, { recursive: true });
    const words = ['pack', '--ignore-scripts', '--pack-destination', folder];
    spawnSync('npm', words, { cwd: ROOT, encoding: 'utf8' });
    const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'))!;
    spawnSync('tar', ['xf', join(folder, tarball), '--strip-components=1', '-C', installed]);
    symlinkSync(join(ROOT, 'node_modules', 'zod'), join(folder, 'node_modules', 'zod'));
  });

  const PROGRAM = `
    const verdict = verifyAnswer('\\\\frac12', 'So it is $\\\\boxed{0.5}$.');
    const reward = resolveReward('binary');
    console.log(JSON.stringify([verdict, reward.name, listRewards().length > 20]));
    const native = process.report.getReport().sharedObjects;
    console.log(native.some((path) => /\\.node$|torch/.test(path)));
  `;

  test.each([
    [
      'run.mjs',
      "import { verifyAnswer } from 'acoer/verify'; import { listRewards, resolveReward } from 'acoer/rewards';",
    ],
    [
      'run.cjs',
      "const { verifyAnswer } = require('acoer/verify'); const { listRewards, resolveReward } = require('acoer/rewards');",
    ],
  ])('load without the addon and its libraries: %s', (name, imports) => {
    expect(
      readdirSync(installed, { recursive: true }).filter((path) => String(path).endsWith('.node')),
    ).toEqual([]);
    writeFileSync(join(folder, name), imports + PROGRAM);
    const { stdout, stderr } = spawnSync(process.execPath, [name], {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: process.env.PATH },
    });
    const verdict = { correct: true, status: 'correct', extracted: '0.5' };
    expect({
      stderr,
      lines: stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    }).toEqual({
      stderr: '',
      lines: [[verdict, 'binary', true], false],
    });
  });

  test('have their types', () => {
    const { exports } = JSON.parse(read('package.json')) as { exports: Record<string, { types: string }> };
    for (const entry of ['./verify', './rewards'])
      expect(existsSync(join(installed, exports[entry]!.types))).toBe(true);
  });
});
