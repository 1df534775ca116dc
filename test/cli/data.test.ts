/** `acoer data`: what it reports about a data set, with the embedded model's tokenizer. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { summariseLengths, type DataReport } from '../../src/cli/data-report';
import { loadTokenizer } from '../../src/tokenizer';
import { TINY_MODEL } from '../../src/models';
import { acoer } from '../helpers/cli';

let folder: string;
let file: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'acoer-data-command-'));
  file = join(folder, 'rows.jsonl');
  const rows = [
    { problem: 'one', answer: '1', level: 2 },
    { problem: 'two and more', answer: 'no reading, (((', level: 10 },
    { problem: 'three', answer: '\\frac{3}{1}', level: 2 },
    { problem: 'four', answer: '4' },
  ];
  writeFileSync(file, rows.map((row) => JSON.stringify(row)).join('\n'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const report = async (...words: string[]) => {
  const { code, stdout, stderr } = await acoer('data', file, '--json', ...words);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as DataReport & { goldDropped: boolean };
};

test('counts rows, levels and unreadable gold answers, with their location', async () => {
  const found = await report('--model', 'tiny');
  expect(found).toMatchObject({
    rows: 4,
    problems: 3,
    levels: { '2': 2 },
    goldDropped: true,
    unparsedGold: { count: 1, examples: [{ at: `${file} line 2`, gold: 'no reading, (((' }] },
  });
  expect((await report('--model', 'tiny', '--set', 'dropUnparsedGold=false')).problems).toBe(4);
});

test('shows the prompt as the model gets it, with its tokens', async () => {
  const { examples, promptLengths } = await report('--model', 'tiny', '--rows', '2-3');
  const tokenizer = await loadTokenizer(TINY_MODEL);
  expect(examples.map(({ id, row }) => [id, row])).toEqual([
    ['2', 2],
    ['3', 3],
  ]);
  for (const { prompt, ids, tokens } of examples) {
    expect(ids).toEqual(Array.from(tokenizer.encode(prompt)));
    expect(tokenizer.decode(ids!)).toBe(tokens!.join(''));
  }
  // The embedded model is trained on the question as it is.
  expect(examples[0]!.prompt).toBe('<|im_start|>user\nthree<|im_end|>\n<|im_start|>assistant\n');
  expect(promptLengths).toMatchObject({ unit: 'tokens', measured: 3 });
});

test('uses the settings of a run: template, columns, levels, length limit', async () => {
  const config = join(folder, 'run.yaml');
  writeFileSync(
    config,
    `model: tiny\ndataset: ${file}\npromptTemplate: "Q {problem}"\nlevels: [2]\nmaxPromptLength: 1\n`,
  );
  const { code, stdout } = await acoer('data', '--config', config, '--json');
  expect(code).toBe(0);
  const found = JSON.parse(stdout) as DataReport;
  expect(found).toMatchObject({ problems: 2, otherLevels: 2, tooLong: 2 });
  expect(found.examples[0]!.prompt).toContain('Q one');
});

test('without a tokenizer it counts characters of the filled template', async () => {
  const { examples, promptLengths } = await report('--no-tokens', '--set', 'promptTemplate="{problem}!"');
  expect(examples[0]).toMatchObject({ prompt: 'one!', ids: null });
  expect(promptLengths).toMatchObject({ unit: 'characters', min: 4, max: 6, median: 5 });
});

test('the text report names what was left out and draws a histogram of lengths', async () => {
  const { code, stdout } = await acoer('data', file, '--model', 'tiny', '--rows', '1');
  expect(code).toBe(0);
  expect(stdout).toContain(`${file}: 3 problems of 4 rows`);
  expect(stdout).toMatch(/gold answers the verifier cannot parse: 1, left out\n +.*line 2: no reading/);
  expect(stdout).toMatch(/^level +problems\n-+ +-+\n2 +2\nnone +1$/m);
  expect(stdout).toMatch(/prompts, tokens: min \d+, mean [\d.]+, median \d+/);
  expect(stdout).toMatch(/█+ +3/);
  expect(stdout).toMatch(/--- problem 1 \(id 0, level 2\), gold answer: 1\n/);
});

test('every bad row is shown, and the exit code reports them unless they are skipped', async () => {
  const bad = join(folder, 'bad.csv');
  writeFileSync(bad, 'problem,answer\na,1\nb\nc,\n');
  const shown = await acoer('data', bad, '--no-tokens');
  expect(shown.code).toBe(2);
  expect(shown.stdout).toMatch(/unreadable rows: 2\n.*line 3 has 1 fields.*\n.*line 4 has no value/);
  expect(shown.stderr).toContain('skipBadRows=true');
  expect((await acoer('data', bad, '--no-tokens', '--set', 'skipBadRows=true')).code).toBe(0);
});

test('without a name it lists the known data sets; for an unknown name it suggests the nearest', async () => {
  expect((await acoer('data')).stdout).toContain('HuggingFaceH4/MATH-500');
  const { code, stdout, stderr } = await acoer('data', 'math50', '--no-tokens');
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain('did you mean `math500`');
});

test('lengths: nearest-rank quantiles and doubling bins', () => {
  const lengths = summariseLengths('tokens', [0, 1, 2, 3, 4, 100]);
  expect(lengths).toMatchObject({ min: 0, median: 2, p95: 100, max: 100, measured: 6 });
  expect(lengths.mean).toBeCloseTo(110 / 6, 12);
  expect(lengths.histogram.map(({ from, to, count }) => [from, to, count])).toEqual([
    [0, 0, 1],
    [1, 1, 1],
    [2, 3, 2],
    [4, 7, 1],
    [8, 15, 0],
    [16, 31, 0],
    [32, 63, 0],
    [64, 127, 1],
  ]);
});

test('reports how many problems a run would train and evaluate on, and shows those held out', async () => {
  const mine = join(folder, 'mine.jsonl');
  const rows = Array.from({ length: 40 }, (_, i) => ({ problem: `say ${i}`, answer: `${i}` }));
  writeFileSync(mine, rows.map((row) => JSON.stringify(row)).join('\n'));
  const all = await acoer('data', mine, '--no-tokens');
  expect(all.stdout).toContain(`${mine}: 40 problems of 40 rows`);
  expect(all.stdout).toContain('a run would train on 32 problems and evaluate on 8\n');
  expect(all.stdout).toMatch(/names no evaluation set: held out 8 of 40 problems \(20%\)/);
  const held = await acoer('data', mine, '--no-tokens', '--eval', '--json');
  expect(JSON.parse(held.stdout)).toMatchObject({ problems: 8, training: 32, evaluation: 8 });
  const few = await acoer('data', file, '--no-tokens');
  expect(few).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('a run would reject this data') as string,
  });
});

describe('--against', () => {
  const rowsAt = (name: string, problems: readonly string[]): string => {
    const path = join(folder, name);
    writeFileSync(path, problems.map((problem) => `${JSON.stringify({ problem, answer: '1' })}\n`).join(''));
    return path;
  };

  test('counts the problems of a benchmark that are in the training data, and names them', async () => {
    const training = rowsAt('training.jsonl', [
      'What is 2+2?',
      'Say how many primes are there below ten, please.',
    ]);
    const benchmark = rowsAt('bench.jsonl', [
      'what is 2 + 2',
      'How many primes are there below ten',
      'What is 3+3?',
    ]);
    const { code, stdout } = await acoer('data', training, '--against', benchmark);
    expect(code).toBe(0);
    expect(stdout).toBe(
      `contamination: 1 of 3 problems of ${benchmark} are also in the training data, 1 nearly\n  0: training row 0\n  1: nearly training row 1\n`,
    );
    const { stdout: json } = await acoer('data', training, '--against', benchmark, '--json');
    expect(JSON.parse(json)).toMatchObject({ problems: 3, exact: [{ id: '0', trainingId: '0' }] });
  });

  test('needs training data', async () => {
    expect(await acoer('data', '--against', file)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--against needs the training data') as string,
    });
    expect((await acoer('data', file, '--eval', '--against', file)).code).toBe(2);
  });
});
