/** `acoer sft` as a process: killed and resumed, interrupted, bad input, and GRPO that goes on from its adapter. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readMetrics } from '../../src/run';
import { acoer, ended, reached, linesFile, spawnAcoer } from '../helpers/cli';
import { untimedFiles } from '../helpers/run-files';

const folder = mkdtempSync(join(tmpdir(), 'acoer-sft-command-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Short thinking about sums, in letters that the embedded model knows. */
const data = linesFile(
  Array.from({ length: 40 }, (_, i) => {
    const [a, b] = [i % 10, (3 * i + 1) % 10];
    return {
      messages: [
        { role: 'user', content: `${a}+${b} mod 10?` },
        {
          role: 'assistant',
          content: `<think>\n${a}+${b}=${(a + b) % 10}\n</think>\n\n\\boxed{${(a + b) % 10}}`,
        },
      ],
    };
  }),
);
const STEPS = 40;
const SETTINGS = [
  ...['--model', 'tiny', '--dataset', data, '--max-steps', String(STEPS), '--learning-rate', '1e-3'],
  ...['--threads', '1', '--set', 'batchSize=6', '--set', 'saveSteps=5', '--set', 'loraDropout=0.1'],
];
const sft = (...words: string[]) => ended(spawnAcoer('sft', ...words));
const whole = join(folder, 'whole');

/** Sends `signal` once `step` steps are in metrics.jsonl. */
async function cutOff(path: string, step: number, signal: NodeJS.Signals, settings = SETTINGS) {
  const child = spawnAcoer('sft', '--out', path, ...settings);
  const end = ended(child);
  const metrics = join(path, 'metrics.jsonl');
  await reached(child, end, () => existsSync(metrics) && readMetrics(metrics).length >= step);
  child.kill(signal);
  return end;
}

test('a run learns, prints its folder and figures on stdout, and leaves an adapter with a card', async () => {
  const { code, stdout, stderr } = await sft('--out', whole, ...SETTINGS);
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.split('\n')[0]).toBe(`run ${whole}`);
  expect(stdout).toContain(`acoer train --adapter ${whole}/final`);
  expect(stderr).toMatch(/^40 examples, 40 steps$/m);
  expect(stderr).toMatch(/^step 40\/40 {2}loss [\d.]+ {2}rate [\de.-]+ {2}epoch [\d.]+ {2}[\d,]+ tokens$/m);
  const lines = readMetrics(join(whole, 'metrics.jsonl'));
  expect(lines.map(({ step }) => step)).toEqual(Array.from({ length: STEPS }, (_, i) => i + 1));
  expect(lines.at(-1)!.loss!).toBeLessThan(lines[0]!.loss! / 2);
  // Seven batches in an epoch, the last of four.
  expect(lines[6]!.epoch).toBe(1);
  const card = readFileSync(join(whole, 'final', 'README.md'), 'utf8');
  expect(card).toContain('supervised fine-tuning');
  expect(card).toContain('| examples | 40 |');
  expect(readdirSync(join(whole, 'final')).sort()).toEqual(
    expect.arrayContaining(['adapter_config.json', 'adapter_model.safetensors', 'tokenizer.json']),
  );
});

test.each([3, 17])('killed after step %i and resumed, it leaves the files of a whole run', async (step) => {
  const path = join(folder, `killed-${step}`);
  await cutOff(path, step, 'SIGKILL');
  expect(existsSync(join(path, 'summary.json'))).toBe(false);
  const { code, stderr } = await sft('--resume', path);
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  expect(untimedFiles(path)).toEqual(untimedFiles(whole));
});

test('Ctrl-C ends it with a checkpoint and exit code 130; resumed, it leaves the files of a whole run', async () => {
  const path = join(folder, 'stopped');
  const { code, stderr } = await cutOff(path, 7, 'SIGINT');
  expect(stderr).toMatch(new RegExp(`Interrupted after step \\d+; resume with: acoer sft --resume ${path}`));
  expect(code).toBe(130);
  const made = readMetrics(join(path, 'metrics.jsonl')).length;
  expect(readdirSync(join(path, 'checkpoints'))).toContain(`step-${String(made).padStart(6, '0')}`);
  expect((await sft('--resume', path)).code).toBe(0);
  const without = (files: Map<string, unknown>) =>
    new Map([...files].filter(([name]) => !name.startsWith('checkpoints/')));
  expect(without(untimedFiles(path))).toEqual(without(untimedFiles(whole)));
});

test('train goes on from the adapter, and its run is not resumed as a supervised one', async () => {
  const grpo = join(folder, 'grpo');
  const words = ['--adapter', join(whole, 'final'), '--max-steps', '1', '--out', grpo];
  const few = ['evalProblems=0', 'evalSampledProblems=0', 'promptsPerStep=1', 'numGenerations=2'];
  const { code, stderr } = await ended(
    spawnAcoer('train', ...words, ...few.flatMap((one) => ['--set', one])),
  );
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  expect(readMetrics(join(grpo, 'metrics.jsonl'))).toHaveLength(1);
  expect(await acoer('sft', '--resume', grpo)).toEqual({
    code: 2,
    stdout: '',
    stderr: `acoer: ${grpo} is a run of acoer train; resume it with: acoer train --resume ${grpo}\n`,
  });
});

test('with all weights it leaves a model, killed or not, from which train goes on', async () => {
  const [first, second] = [join(folder, 'full'), join(folder, 'full-resumed')];
  const settings = [...SETTINGS, '--full', '--max-steps', '30', '--set', 'saveSteps=2'];
  const { code, stdout, stderr } = await sft('--out', first, ...settings);
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain(`acoer train --set model=${first}/final`);
  expect((await cutOff(second, 3, 'SIGKILL', settings)).code).not.toBe(0);
  expect((await sft('--resume', second)).code).toBe(0);
  expect(untimedFiles(second)).toEqual(untimedFiles(first));
  expect(readdirSync(join(first, 'final'))).toEqual(
    expect.arrayContaining(['config.json', 'tokenizer.json']),
  );
  expect(readFileSync(join(first, 'final', 'README.md'), 'utf8')).toContain(
    "All weights of Acoer's embedded model",
  );
  const few = [
    'evalProblems=0',
    'evalSampledProblems=0',
    'promptsPerStep=1',
    'numGenerations=2',
    'dataset=tiny',
  ];
  const words = [
    '--preset',
    'tiny',
    '--max-steps',
    '1',
    '--out',
    join(folder, 'grpo-full'),
    '--set',
    `model=${first}/final`,
  ];
  const grpo = await ended(spawnAcoer('train', ...words, ...few.flatMap((one) => ['--set', one])));
  expect({ code: grpo.code, stderr: grpo.code === 0 ? '' : grpo.stderr }).toEqual({ code: 0, stderr: '' });
});

test.each([['train', '--resume'], ['fork', '--at', '5'], ['monitor'], ['show']])(
  '%s refuses its run in one sentence that says what to do',
  async (command, ...more) => {
    const words = command === 'train' ? [...more, whole] : [whole, ...more];
    const { code, stderr } = await acoer(command, ...words);
    expect(stderr).toBe(
      `acoer: ${whole} is a run of acoer sft, which has no rewards, completions or answers; resume it with acoer sft --resume ${whole}, or go on from it with acoer train --adapter ${whole}/final.\n`,
    );
    expect(code).toBe(2);
  },
);

test('report shows its loss and settings; among other runs it is refused', async () => {
  const page = join(folder, 'report.html');
  expect((await acoer('report', whole, '--out', page)).code).toBe(0);
  const html = readFileSync(page, 'utf8');
  expect(html).toContain('supervised fine-tuning');
  expect(html).toContain('Loss per completion token');
  expect(html).toContain('<code>batchSize</code>');
  expect(html).not.toContain('The same problems, before and after');
  const { code, stderr } = await acoer('report', whole, join(folder, 'killed-3'), '--out', page);
  expect(stderr).toBe(
    `acoer: ${whole} is a run of acoer sft, and runs of acoer train are compared by other numbers: name it alone.\n`,
  );
  expect(code).toBe(2);
});

const USER = { role: 'user', content: 'Hi' };

test.each<[string, string[], RegExp]>([
  ['no data', [], /^acoer: Configuration: dataset: name the training data, for example --dataset data\.jsonl$/],
  ['data that is not there', ['--dataset', '/no/such.jsonl'], /^acoer: Cannot read dataset \/no\/such\.jsonl: no such file$/],
  ['empty data', ['--dataset', linesFile([])], /^acoer: Dataset .* has no problems$/],
  ['rows of other columns', ['--dataset', linesFile([{ text: 'Hi' }])], /^acoer: .*lines\.jsonl line 1 has no values in messages, nor in prompt and completion, .*its columns are text\./],
  ['a last message of the user', ['--dataset', linesFile([{ messages: [USER, USER] }])], /^acoer: .*lines\.jsonl line 1 must end with the assistant's message in messages, not the user's\./],
  ['problems without solutions', ['--dataset', 'tiny'], /^acoer: tiny has problems without solutions; name data with messages/],
  ['an unknown setting', ['--dataset', data, '--set', 'learningRat=1'], /^acoer: Configuration: learningRat: unknown setting; did you mean `learningRate`\?$/],
  ['a call option as a setting', ['--dataset', data, '--set', 'out=x'], /^acoer: Configuration: out: unknown setting$/],
  ['a folder that has a run', ['--dataset', data, '--out', whole], /already contains a run; resume it \(--resume .*\), or choose another folder/],
  ['a resumed run under another seed', ['--resume', whole, '--seed', '7', '--max-steps', '50'], /^acoer: A resumed run cannot change seed 42 -> 7: the steps made so far depend on it\./],
])('%s is refused in one sentence, with exit code 2', async (_, words, sentence) => {
  const { code, stderr } = await acoer('sft', '--model', 'tiny', ...words);
  expect(stderr.trim().split('\n')).toHaveLength(1);
  expect(stderr.trim()).toMatch(sentence);
  expect(code).toBe(2);
}); // prettier-ignore

test('rows that cannot be read are skipped and counted when asked for', async () => {
  const path = linesFile([{ text: 'Hi' }, { prompt: '1+1=', completion: '2' }]);
  const { code, stderr, stdout } = await acoer(
    ...['sft', '--model', 'tiny', '--dataset', path, '--set', 'skipBadRows=true', '--json'],
    ...['--out', join(folder, 'skipped'), '--max-steps', '2'],
  );
  expect(stderr).toMatch(
    /warning: .*: 1 of 2 rows cannot be read and were left out \(.* line 1 has no values/,
  );
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ run: { method: 'sft', steps: 2, examples: 1 } });
});

test('--describe prints the settings', async () => {
  const { code, stdout } = await acoer('sft', '--describe');
  expect(code).toBe(0);
  expect(stdout).toContain('- `batchSize` (integer, default `8`): ');
  expect(stdout).toContain('- `dataset` (string, required): ');
});
