/** `--judge` of `acoer verify` and `acoer eval`. Run as processes: a judge in a file needs compiled code. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ended, linesFile, objects, ROOT, spawnAcoer } from '../helpers/cli';

const root = mkdtempSync(join(tmpdir(), 'acoer-judge-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const judgeFile = (name: string) => join(ROOT, 'test', 'fixtures', 'judge-modules', name);

test('verify: a built-in judge, and one in a file that sees the row', async () => {
  const letters = linesFile([{ gold: 'B', pred: 'Answer: B' }, { gold: 'C', pred: 'B' }, { pred: 'B' }]);
  const choice = await ended(spawnAcoer('verify', '--judge', 'choice', letters));
  expect(objects(choice.stdout)).toEqual([
    { correct: true, status: 'correct', extracted: 'B' },
    { correct: false, status: 'incorrect', extracted: 'B' },
    { error: '"gold" must be a string.', line: 3 },
  ]);
  expect(choice.code).toBe(1);
  const cities = linesFile([
    { pred: '<think>Oslo</think>in Paris', row: { city: 'Paris' } },
    { pred: '<think>Paris</think>in Oslo', row: { city: 'Paris' } },
  ]);
  const city = await ended(
    spawnAcoer('verify', '--judge', judgeFile('city.mjs'), '--judge-param', 'prefix="in "', cities),
  );
  expect(objects(city.stdout)).toEqual([
    { correct: true, status: 'correct', extracted: 'in Paris' },
    { correct: false, status: 'incorrect', extracted: 'in Oslo' },
  ]);
});

test('verify: code is run in a child process, which is ended when it hangs', async () => {
  const row = { call: 'f(2)', output: '4' };
  const file = linesFile([
    { pred: 'const f = (x) => x * 2;', row },
    { pred: 'const f = (x) => x;', row },
    { pred: 'for (;;);', row },
    { pred: 'process.exit(0)', row },
  ]);
  const { stdout } = await ended(spawnAcoer('verify', '--judge', judgeFile('child.mjs'), file));
  expect(objects<{ correct: boolean }>(stdout).map(({ correct }) => correct)).toEqual([true, false, false, false]);
}); // prettier-ignore

test.each<[string[], RegExp]>([
  [['--judge', 'mth'], /there is no judge "mth"; did you mean `math`\?/],
  [['--judge', 'exact', '--preset', 'trl'], /--preset is for the verifier/],
  [['--judge-param', 'pattern=x'], /--judge-param needs --judge/],
  [['--judge', 'regex'], /judgeParams\.pattern/],
])('verify %j: exit 2', async (words, message) => {
  const { code, stderr } = await ended(spawnAcoer('verify', ...words, linesFile([{ gold: '1', pred: '1' }])));
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) as string });
});

test('eval --completions: rows of the file or of the benchmark, without a reference answer', async () => {
  const completions = linesFile([
    { id: 'a', completion: 'in Paris', city: 'Paris' },
    { id: 'b', completion: 'in Oslo', city: 'Paris' },
  ]);
  const words = ['eval', '--completions', completions, '--judge', judgeFile('city.mjs'), '--json'];
  const alone = await ended(spawnAcoer(...words));
  expect(objects(alone.stdout)[0]).toMatchObject({ accuracy: 0.5, n: 2 });
  const benchmark = join(root, 'cities.jsonl');
  writeFileSync(
    benchmark,
    '{"question":"q","id":"a","city":"Rome"}\n{"question":"r","id":"b","city":"Oslo"}\n',
  );
  const known = await ended(spawnAcoer(...words, '--benchmark', benchmark));
  expect(objects(known.stdout)[0]).toMatchObject({ accuracy: 0.5, n: 2 });
  const strict = await ended(spawnAcoer('eval', '--completions', completions, '--judge', 'exact'));
  expect({ code: strict.code, stderr: strict.stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining('no reference answer found') as string,
  });
});

test('eval with a model: the judge decides, and is part of what an evaluation resumes under', async () => {
  const benchmark = join(root, 'digits.jsonl');
  const questions = Array.from({ length: 6 }, (_, i) => ({ question: `${i}+2-1 mod 10?`, n: i + 1 }));
  writeFileSync(benchmark, questions.map((row) => JSON.stringify(row)).join('\n'));
  const out = join(root, 'out');
  const words = ['eval', '--model', 'tiny', '--benchmark', benchmark, '--prompt-template', '{problem}'];
  const limits = ['--max-new-tokens', '256', '--out', out, '--json'];
  const judged = await ended(spawnAcoer(...words, ...limits, '--judge', judgeFile('digit.cjs')));
  expect(judged.stderr).not.toMatch(/Error/);
  expect(objects(judged.stdout)[0]).toMatchObject({ accuracy: 1, n: 6 });
  const other = await ended(spawnAcoer(...words, ...limits, '--judge', 'regex', '--judge-param', 'pattern=x'));
  expect(other.code).toBe(2);
}); // prettier-ignore
