/** `acoer init`: every file that it writes is used by the commands that it prints. Runs the compiled program. */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { completionTables, readCompletions, readMetrics } from '../../src/run';
import { acoer, builtCli } from '../helpers/cli';

const root = mkdtempSync(join(tmpdir(), 'acoer-init-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const FILES = ['acoer.yaml', 'judge.mjs', 'reward.mjs', 'rows.jsonl'];

function command(cwd: string, ...words: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [builtCli(), ...words], {
    cwd,
    encoding: 'utf8',
  });
  expect({ status, stderr }).toMatchObject({ status: 0 });
  return stdout;
}

test('init, data and train, as printed', async () => {
  const printed = command(root, 'init', 'mine');
  const folder = join(root, 'mine');
  expect(readdirSync(folder).sort()).toEqual(FILES);
  const commands = [...printed.matchAll(/^ {2}(?:npx acoer|cd) (.+?)(?: {2}|$)/gm)].map(([, words]) => words);
  expect(commands).toEqual(['mine', 'data --config acoer.yaml', 'train acoer.yaml']);
  const [, schema] = /^# yaml-language-server: \$schema=(.+)\n/.exec(
    readFileSync(join(folder, 'acoer.yaml'), 'utf8'),
  )!;
  expect(JSON.parse(readFileSync(join(folder, schema!), 'utf8'))).toHaveProperty('properties.rewardModules');

  expect(command(folder, 'data', '--config', 'acoer.yaml')).toContain(
    'train on 180 problems and evaluate on 20',
  );
  command(folder, 'train', 'acoer.yaml', '--max-steps', '2', '--set', 'completionsSteps=1', '--out', 'run');
  const lines = readMetrics(join(folder, 'run', 'metrics.jsonl'));
  expect(lines).toHaveLength(2);
  const rows = await readCompletions(completionTables(join(folder, 'run'))[0]!);
  expect(rows.some(({ correct }) => correct)).toBe(true);
  const perTerm = rows.map(({ columns }) => columns!['tokens per term'] as number);
  const mean = perTerm.reduce((sum, value) => sum + value, 0) / perTerm.length;
  expect(lines[0]!['brief/tokens_per_term']).toBeCloseTo(mean, 9);
  for (const { columns, correct, scored, thinkingTokens } of rows) {
    const terms = thinkingTokens / (columns!['tokens per term'] as number);
    if (thinkingTokens > 0) expect([2, 4, 6, 8, 10].some((n) => Math.abs(n - terms) < 1e-9)).toBe(true);
    expect(scored!.parts.brief! > 0).toBe(correct);
  }
});

test('the answers of the rows are right', () => {
  const text = readFileSync(join(__dirname, '..', '..', 'assets', 'init', 'rows.jsonl'), 'utf8');
  const rows = text.trim().split('\n').map((line) => JSON.parse(line) as { question: string; terms: number; value: number });
  expect(rows).toHaveLength(200);
  for (const { question, terms, value } of rows) {
    const numbers = [...question.matchAll(/[+-]?\d/g)].slice(0, terms + 1).map(([number]) => Number(number));
    const sum = numbers.reduce((total, number) => total + number, 0);
    expect([question, value]).toEqual([question, ((sum % 10) + 10) % 10]);
  }
}); // prettier-ignore

test('nothing is written over, and then nothing is written', async () => {
  const folder = join(root, 'taken');
  mkdirSync(folder);
  for (const name of ['rows.jsonl', 'judge.mjs']) writeFileSync(join(folder, name), 'mine');
  const { code, stderr, stdout } = await acoer('init', folder);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(`${folder} already has judge.mjs and rows.jsonl, and nothing is written over`);
  expect(readdirSync(folder).sort()).toEqual(['judge.mjs', 'rows.jsonl']);
  expect(readFileSync(join(folder, 'rows.jsonl'), 'utf8')).toBe('mine');
});

test('a folder that cannot be made is a sentence', async () => {
  writeFileSync(join(root, 'file'), '');
  const { code, stderr } = await acoer('init', join(root, 'file', 'below'));
  expect(code).toBe(2);
  expect(stderr).toMatch(/^acoer: /m);
  expect(existsSync(join(root, 'file', 'below'))).toBe(false);
});
