/** `acoer eval` on the embedded model and on files of completions. */
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { acoer, ended, linesFile, objects, reached, spawnAcoer } from '../helpers/cli';

const root = mkdtempSync(join(tmpdir(), 'acoer-eval-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const TINY = ['--model', 'tiny', '--benchmark', 'tiny'];
const evaluate = (out: string, ...words: string[]) =>
  acoer('eval', ...TINY, '--problems', '20', '--out', join(root, out), '--json', ...words);

/** Runs as a process, because the pool of verifiers runs compiled code. */
const spawned = (...words: string[]) => ended(spawnAcoer('eval', ...words));

/** The figures that depend on the answers alone. */
const figures = (stdout: string) => {
  const { completions: _, ...rest } = objects<Record<string, unknown>>(stdout)[0]!;
  return rest;
};

test('prints one JSON object with every figure and writes every completion to a file', async () => {
  const { code, stdout, stderr } = await evaluate('whole');
  expect(code).toBe(0);
  expect(stderr).toMatch(/base on tiny: 20\/20 answers, accuracy [\d.]+%, [\d,]+ tokens\/s, in \d+s/);
  const [json] = objects<Record<string, unknown>>(stdout);
  expect(json).toMatchObject({
    model: 'tiny',
    adapter: null,
    benchmark: 'tiny',
    temperature: 0,
    n: 20,
    problems: 20,
  });
  for (const name of ['accuracy', 'thinkingTokens', 'totalTokens', 'accuracyPer1kTokens', 'truncated']) {
    expect(json).toHaveProperty(name);
    expect(json).toHaveProperty(['intervals', name, 'low']);
  }
  expect(readdirSync(join(root, 'whole')).sort()).toEqual([
    'base.tiny.json',
    'base.tiny.jsonl',
    'summary.json',
  ]);
  const lines = objects<{ prompt_index: number }>(
    readFileSync(join(root, 'whole', 'base.tiny.jsonl'), 'utf8'),
  );
  expect(lines.map((line) => line.prompt_index).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 20 }, (_, i) => i),
  );
});

test('a killed evaluation resumes where it stopped, with the same figures bit for bit', async () => {
  const several = ['-n', '3', '--temperature', '1'];
  const whole = await evaluate('several', ...several);
  const file = (out: string, name: string) => join(root, out, name);
  await evaluate('killed', ...several);
  // As if the process had been killed while it wrote its tenth line.
  const lines = readFileSync(file('killed', 'base.tiny.jsonl'), 'utf8').split('\n');
  writeFileSync(file('killed', 'base.tiny.jsonl'), `${lines.slice(0, 9).join('\n')}\n`);
  appendFileSync(file('killed', 'base.tiny.jsonl'), lines[9]!.slice(0, 40));
  const again = await evaluate('killed', ...several);
  expect(again.code).toBe(0);
  expect(again.stderr).toContain('9 of 60 answers were done earlier');
  expect(figures(again.stdout)).toEqual(figures(whole.stdout));
  const sorted = (out: string) => readFileSync(file(out, 'base.tiny.jsonl'), 'utf8').split('\n').sort();
  expect(sorted('killed')).toEqual(sorted('several'));
  expect(figures(again.stdout).atK).toHaveLength(3);
});

test('speculation changes no answer, and an evaluation may go on with it', async () => {
  const more = ['--num-speculative-tokens', '4'];
  const plain = await evaluate('plain');
  const faster = await evaluate('faster', ...more);
  expect(figures(faster.stdout)).toEqual(figures(plain.stdout));
  const again = await evaluate('plain', ...more);
  expect(again.code).toBe(0);
  expect(again.stderr).toContain('20 of 20 answers were done earlier');
});

test('of two at once in one folder the second is refused, and every answer is there once', async () => {
  const words = [...TINY, '--problems', '20', '--out', join(root, 'both')];
  const first = spawnAcoer('eval', ...words);
  const done = ended(first);
  // It would be over before the second one has started.
  const lock = join(root, 'both', 'lock.json');
  await reached(first, done, () => existsSync(lock) && statSync(lock).size > 0);
  first.kill('SIGSTOP');
  const second = await spawned(...words);
  first.kill('SIGCONT');
  expect([(await done).code, second.code]).toEqual([0, 2]);
  expect(second.stderr).toMatch(
    /^acoer: .*both is in use by process \d+ on \S+ \(since .*\): wait for it to end, or stop it\.\n$/,
  );
  const text = readFileSync(join(root, 'both', 'base.tiny.jsonl'), 'utf8');
  expect(new Set(objects<{ prompt_index: number }>(text).map((row) => row.prompt_index)).size).toBe(20);
  expect(objects(text)).toHaveLength(20);
  expect(readdirSync(join(root, 'both'))).not.toContain('lock.json');
});

test('an answer that is there twice is named, whoever reads the file', async () => {
  const path = join(root, 'both', 'base.tiny.jsonl');
  const [first] = readFileSync(path, 'utf8').split('\n');
  appendFileSync(path, `${first}\n`);
  for (const words of [
    ['--completions', path],
    ['--compare', path, path],
  ]) {
    const { code, stderr } = await spawned(...words);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/base\.tiny\.jsonl line 21\b.* there already/)]);
  }
  const again = await evaluate('both');
  expect([again.code, again.stderr]).toEqual([2, expect.stringMatching(/line 21 has an answer/)]);
});

test('a folder with an evaluation under other settings is rejected, naming the setting', async () => {
  const { code, stderr } = await evaluate('whole', '--max-new-tokens', '100');
  expect(code).toBe(2);
  expect(stderr).toMatch(/maxNewTokens is 256 there, but 100 now\. Choose another folder with --out/);
});

test('grading its own file again without a model gives the same figures', async () => {
  const { stdout } = await spawned('--completions', join(root, 'several', 'base.tiny.jsonl'), '--json');
  const stored = JSON.parse(readFileSync(join(root, 'several', 'base.tiny.json'), 'utf8')) as {
    report: object;
  };
  expect(objects(stdout)[0]).toMatchObject(stored.report);
});

test('two benchmarks in one table; clashing names are rejected', async () => {
  const rows = linesFile([
    { question: '1+1 mod 10?', answer: '2', level: 'one' },
    { question: '2+3 mod 10?', answer: '5', level: 'two' },
  ]);
  const words = [...TINY, '--problems', '5', '--prompt-template', '{problem}', '--max-new-tokens', '256'];
  const { code, stdout } = await acoer(
    'eval',
    ...words,
    '--benchmark',
    `aime25=${rows}`,
    '--out',
    join(root, 'two'),
  );
  expect(code).toBe(0);
  expect(stdout).toMatch(/method +tiny acc +95% +tokens +AIME 2025 acc +95% +tokens\n/);
  expect(stdout).toContain("The paper's table 3");
  expect(stdout).toMatch(/ACOER +36\.7% +8,922 \(-33%\)/);
  const clash = await acoer('eval', ...words, '--benchmark', `tiny=${rows}`);
  expect(clash.code).toBe(2);
  expect(clash.stderr).toContain('Two benchmarks are called tiny');
});

test('--compare pairs two evaluations', async () => {
  const plain = linesFile(
    [1, 2, 3, 4].map((n) => ({
      id: n,
      gold: String(n),
      completion: '\\boxed{1}',
      total_tokens: 9,
      thinking_tokens: 5,
    })),
  );
  const better = linesFile(
    [4, 3, 2, 1].map((n) => ({
      id: n,
      gold: String(n),
      completion: `\\boxed{${n}}`,
      total_tokens: 6,
      thinking_tokens: 3,
    })),
  );
  const { code, stdout } = await spawned('--compare', plain, better);
  expect(code).toBe(0);
  expect(stdout).toContain('only A correct 0, only B correct 3, exact McNemar p = 0.250');
  expect(stdout).toMatch(/accuracy +25\.0% +100\.0% +\+75\.0/);
  expect(stdout).toContain('total tokens: -33.3%');
  const json = await spawned('--compare', join(root, 'whole'), join(root, 'whole'), '--json');
  expect(objects(json.stdout)[0]).toMatchObject({
    benchmark: 'tiny',
    pairs: 20,
    accuracy: { difference: 0 },
  });
});

test('missing lengths are shown as dashes, and as null in JSON', async () => {
  const file = linesFile([{ gold: '1', text: '\\boxed{1}' }]);
  expect((await spawned('--completions', file)).stdout).toMatch(/thinking tokens +mean - \(95% -\)/);
  expect(objects((await spawned('--completions', file, '--json')).stdout)[0]).toMatchObject({
    accuracy: 1,
    totalTokens: null,
  });
  const counted = await spawned('--completions', file, '--tokenizer', 'tiny', '--json');
  expect(objects<{ totalTokens: number }>(counted.stdout)[0]!.totalTokens).toBeGreaterThan(2);
});

test.each<[string, string[], string]>([
  ['no benchmark', ['--model', 'tiny'], '--benchmark is required'],
  ['no model', ['--benchmark', 'tiny'], '--model is required'],
  ['greedy samples', [...TINY, '-n', '4', '--temperature', '0'], 'would give the same answer 4 times'],
  [
    'a model together with a file',
    ['--completions', 'x.jsonl', '--model', 'tiny'],
    '--model cannot be used with --completions',
  ],
  ['one file to compare', ['--compare', 'x.jsonl'], '--compare needs two'],
  ['three files to compare', ['--compare', 'x', 'y', 'z'], 'Give exactly two files or folders'],
  ['a missing file', ['--completions', '/nonesuch.jsonl'], 'no such file'],
  ['not a run', ['--run', '/nonesuch'], 'is not a run'],
  ['not an adapter', [...TINY, '--adapter', '/tmp'], 'is not an adapter'],
])('%s is rejected with exit code 2', async (_, words, message) => {
  const { code, stdout, stderr } = await acoer('eval', ...words);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
  expect(stdout).toBe('');
});
