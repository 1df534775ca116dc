/**
 * Foreign text through the commands: whatever data, files, templates and names hold, no byte that a terminal obeys arrives
 * on stdout or stderr, and JSON stays JSON with the same values. Hubs: test/hub/hostile.slow.test.ts; runs: show.test.ts and
 * train-view.test.ts; set-up: test/setup-fetch.test.ts.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { acoer, type CommandResult, ended, linesFile, objects, spawnAcoer } from '../helpers/cli';
import { textModel } from '../helpers/text-model';

const root = mkdtempSync(join(tmpdir(), 'acoer-foreign-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const HOSTILE = 'a\u001b[2J\u001b]0;owned\u0007\u009b31m\u202e\u2066\rb\u0085\u2028\u0000c';

/** Node may warn of Jest's own options. */
const ownText = ({ stdout, stderr }: CommandResult) => stdout + stderr.replaceAll(/^\(.*\n/gm, '');

function expectHarmless(result: CommandResult): void {
  expect(ownText(result).replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
  // It was there, as an escape.
  expect(ownText(result)).toMatch(/\\x1b|\\u001b/);
}

const problems = () =>
  linesFile([
    { question: `1+1 ${HOSTILE}?`, answer: `2${HOSTILE}`, level: HOSTILE },
    { question: `2+2 ${HOSTILE}`, answer: '4', level: HOSTILE },
    { [HOSTILE]: 1 },
  ]);
const gradedFile = (answer: string) =>
  linesFile(
    [1, 2, 3].map((n) => ({
      id: `${HOSTILE}${n}`,
      gold: HOSTILE,
      completion: `\\boxed{${answer}}${HOSTILE}`,
      level: HOSTILE,
    })),
  );

const IN_PROCESS: [what: string, words: () => string[]][] = [
  ['data', () => ['data', problems(), '--no-tokens', '--set', 'skipBadRows=true']],
  ['data --json', () => ['data', problems(), '--no-tokens', '--json', '--set', 'skipBadRows=true']],
  ['a name of a data set', () => ['data', `./${HOSTILE.replaceAll('\0', '')}.jsonl`, '--no-tokens']],
  ['a setting', () => ['train', '--set', `${HOSTILE}=1`]],
  ['an unknown option', () => ['train', `--${HOSTILE}`]],
  ['the name of a run', () => ['show', HOSTILE.replaceAll('\0', '')]],
  ['monitor', () => ['monitor', join(root, HOSTILE.replaceAll('\0', '')), '--groups', '4']],
  ['report', () => ['report', HOSTILE.replaceAll('\0', '')]],
  ['lab', () => ['lab', join(root, HOSTILE.replaceAll('\0', ''))]],
  ['plan', () => ['plan', '--set', `model=${HOSTILE.replaceAll('\0', '')}`]],
  ['reward', () => ['reward', linesFile([HOSTILE]), '--reward', 'acoer']],
  ['score', () => ['score', linesFile([{ ids: [1] }]), '--model', HOSTILE.replaceAll('\0', '')]],
];

test.each(IN_PROCESS)('%s', async (_, words) => {
  expectHarmless(await acoer(...words()));
});

const SPAWNED: [what: string, words: () => string[], values: unknown][] = [
  [
    'verify',
    () => ['verify', linesFile([{ gold: HOSTILE, pred: `\\boxed{${HOSTILE}}` }, `{${HOSTILE}`])],
    null,
  ],
  ['eval', () => ['eval', '--completions', gradedFile(HOSTILE)], null],
  ['eval --json', () => ['eval', '--completions', gradedFile('1'), '--json'], null],
  ['compare', () => ['eval', '--compare', gradedFile('1'), gradedFile('2')], null],
];

test.each(SPAWNED)('%s', async (what, words) => {
  const result = await ended(spawnAcoer(...words()));
  expect(ownText(result).replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
  if (what === 'verify' || what.endsWith('--json')) expect(objects(result.stdout).length).toBeGreaterThan(0);
});

test('JSON holds the same values', async () => {
  const { stdout } = await acoer('data', problems(), '--no-tokens', '--json', '--set', 'skipBadRows=true');
  expect(JSON.stringify(objects(stdout)[0])).toContain(JSON.stringify(`2+2 ${HOSTILE}`).slice(1, -1));
});

test.each([[], ['--json']])('doctor %j, which shows a folder of that name', async (...words) => {
  const before = process.env.LIBTORCH;
  process.env.LIBTORCH = join(root, HOSTILE.replaceAll('\0', ''));
  try {
    const result = await acoer('doctor', ...words);
    expectHarmless(result);
    if (words.length > 0) expect(JSON.stringify(JSON.parse(result.stdout))).toContain('\u202e');
  } finally {
    if (before === undefined) delete process.env.LIBTORCH;
    else process.env.LIBTORCH = before;
  }
});

test("a chat template's own message", async () => {
  const model = textModel();
  writeFileSync(join(model, 'chat_template.jinja'), `{{ raise_exception(${JSON.stringify(HOSTILE)}) }}`);
  const result = await acoer('generate', '--model', model, '--prompt', '1+1', '--max-new-tokens', '2');
  expect(result.code).not.toBe(0);
  expectHarmless(result);
});

test('the folder of a model', async () => {
  const folder = join(root, 'm\u001b[31m');
  mkdirSync(folder);
  writeFileSync(join(folder, 'config.json'), '{');
  expectHarmless(await acoer('generate', '--model', folder, '--prompt', 'x'));
});
