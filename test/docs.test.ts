/** The pages of the documentation as files: every index names its pages, and tables fit a terminal. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(__dirname, '..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const pagesIn = (folder: string): string[] =>
  readdirSync(join(ROOT, folder)).filter((name) => name.endsWith('.md') && name !== 'README.md');

/** Pages that a list item of an index begins with. */
const listed = (index: string): string[] =>
  [...read(index).matchAll(/^- \[[^\]]+\]\(([^)/]+\.md)\)/gm)].map(([, page]) => page!);

test.each(['docs', 'docs/decisions'])('%s/README.md lists each of its pages once', (folder) => {
  expect(listed(`${folder}/README.md`).sort()).toEqual(pagesIn(folder).sort());
});

test('docs/log.md lists its months', () => {
  const months = [...read('docs/log.md').matchAll(/^- \[[^\]]+\]\(log\/([^)]+)\)/gm)].map(
    ([, page]) => page!,
  );
  expect(months.sort()).toEqual(pagesIn('docs/log').sort());
});

/** Lines of tables, without those of code blocks. */
const tableLines = (text: string): string[] =>
  text
    .replace(/^ *```[^]*?^ *```/gm, '')
    .split('\n')
    .filter((line) => /^\s*\|/.test(line));

test('no table is wider than 120 columns: cells of that length are lists', () => {
  const { stdout } = spawnSync('git', ['ls-files', '*.md'], { cwd: ROOT, encoding: 'utf8' });
  const pages = stdout.split('\n').filter((path) => path !== '');
  expect(pages.length).toBeGreaterThan(100);
  const wide = pages.filter((path) => tableLines(read(path)).some((line) => [...line].length > 120));
  expect(wide).toEqual([]);
});
