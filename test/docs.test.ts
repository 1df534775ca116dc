/** The pages of the documentation as files: every index names each of its pages. */
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
