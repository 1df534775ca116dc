/** The examples of tasks, unchanged, with the built package. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { builtCli, ROOT } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-tasks-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const run = (example: string): string => {
  builtCli();
  return execFileSync(process.execPath, [join(ROOT, 'examples', example)], { cwd: folder, encoding: 'utf8' });
};

const codeOf = (text: string) => text.replace(/^\/\/.*\n|^import .*\n/gm, '').trim();

test('the page shows examples/task.mjs, whose task takes under 15 lines', () => {
  const page = readFileSync(join(ROOT, 'docs', 'tasks.md'), 'utf8');
  const example = codeOf(readFileSync(join(ROOT, 'examples', 'task.mjs'), 'utf8'));
  const shown = codeOf(/```ts\n([^]*?)```/.exec(page)![1]!);
  // The page is TypeScript, which asks whether there was an evaluation.
  expect(shown.replaceAll('sampled?.', 'sampled.')).toBe(example);
  expect(example.split('\n').length).toBeLessThan(15);
});

test('task.mjs: an own judge and reward on own columns; thinking gets shorter', () => {
  const [before, after, thinking] = run('task.mjs').trim().split(/\s+/).map(Number);
  expect(before).toBeGreaterThan(0.5);
  expect(after).toBeGreaterThanOrEqual(before!);
  expect(thinking).toBeLessThan(100);
});

/** Verdict and reward of each written completion, in the order of the script. */
test.each<[string, [string, number][]]>([
  ['gsm8k', [['right', 0.99], ['right', 0.99], ['incorrect', 0], ['unparseable', 0]]],
  ['code', [['right', 1], ['incorrect', 0.5], ['incorrect', 0], ['incorrect', 0]]],
  ['json', [['right', 2], ['right', 5 / 3], ['incorrect', 1 / 3], ['incorrect', 0]]],
  ['summaries', [['right', 0.9], ['right', 0.6], ['right', 0], ['incorrect', 0]]],
])('tasks/%s.mjs: what is right and what it earns', (name, expected) => {
  const lines = run(`tasks/${name}.mjs`).trim().split('\n');
  expect(lines.map((line) => line.split(/\s+/)[0])).toEqual(expected.map(([verdict]) => verdict));
  const rewards = lines.map((line) => Number(line.split(/\s+/)[1]));
  expected.forEach(([, reward], i) => expect(Math.abs(rewards[i]! - reward)).toBeLessThan(0.055));
}); // prettier-ignore
