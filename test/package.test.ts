/** What npm packs: every page that a page in it links to, and a version that the changelog knows. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

jest.setTimeout(300_000);

const ROOT = join(__dirname, '..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

/** Paths that `npm pack` takes. */
function packed(): Set<string> {
  const words = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const { stdout } = spawnSync('npm', words, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 26 });
  const answer = JSON.parse(stdout) as unknown;
  // npm 10 gives a list, npm 11 and later may give an object by name.
  const [{ files }] = Object.values(answer as Record<string, { files: { path: string }[] }>);
  return new Set(files.map(({ path }) => path));
}

test('links of packed pages lead to packed files', () => {
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
      .map((target) => `${page} -> ${target}${existsSync(join(ROOT, target)) ? ' (not packed)' : ''}`),
  );
  expect(dead).toEqual([]);
});

test('the changelog begins with the version of the package', () => {
  const { version } = JSON.parse(read('package.json')) as { version: string };
  const [, heading] = /^## (.*)$/m.exec(read('CHANGELOG.md'))!;
  // A released version has its date, another says that it is none.
  expect(heading).toMatch(
    new RegExp(`^${version.replaceAll('.', '\\.')}, (unreleased|\\d{4}-\\d{2}-\\d{2})$`),
  );
});
