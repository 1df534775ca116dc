/** `acoer train` as a process: signals, resuming, exit codes, stdout and stderr. */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunSummary } from '../../src/train';
import { readMetrics } from '../../src/run';
import { ended, reached, ROOT, spawnAcoer } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-train-command-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A short run of the embedded default, with small evaluations. */
const SHORT = ['--max-steps', '12', '--set', 'evalProblems=10', '--set', 'evalSampledProblems=10'];
const run = (...words: string[]) => ended(spawnAcoer('train', ...words));

const untimed = (path: string) =>
  readMetrics(join(path, 'metrics.jsonl')).map((line) =>
    Object.fromEntries(Object.entries(line).filter(([name]) => !/^(step_time$|time\/|memory\/)/.test(name))),
  );

const whole = join(folder, 'whole');

test('a run reports progress on stderr and ends with the table on stdout', async () => {
  const { code, stdout, stderr } = await run('--out', whole, ...SHORT);
  expect(stderr).not.toContain('warning');
  expect(code).toBe(0);
  expect(stdout.split('\n')[0]).toBe(`run ${whole}`);
  expect(stdout).toMatch(/greedy \(10 problems\)/);
  expect(stdout).toContain(join(whole, 'final'));
  // Twelve steps hardly shorten anything; the verdict says so, and what it compared.
  const [figures, inWords] = stdout.split('\n\nThe first problem of the evaluation, greedy:\n');
  expect(inWords).toMatch(/^ {2}.+ mod 10\?\n {2}before: [^]*\n {2}after: [^]*\n\nFiles:\n/);
  const closing = figures!.split('\n\n').at(-1)!.split('\n');
  expect(closing[0]).toMatch(/^(Thinking did not get much shorter|Shortened)/);
  expect(closing).toContainEqual(
    expect.stringMatching(/^ {2}greedy +base [\d.]+% -> [\d.]+% of 10 problems, /),
  );
  for (const line of closing) expect(line.length).toBeLessThanOrEqual(90);
  expect(stderr).toMatch(
    /step 10\/12 +accuracy +[\d.]+% +thinking +[\d.]+ .*alpha [\d.]+ +budget +\d+ .*left/,
  );
  expect(stderr).not.toContain('\x1b');
  const summary = JSON.parse(readFileSync(join(whole, 'summary.json'), 'utf8')) as RunSummary;
  expect(summary.base.greedy!.accuracy).toBeGreaterThan(0.5);
  expect(Object.keys(summary.base.sampled!.perLevel).length).toBeGreaterThan(0);
  const lines = untimed(whole);
  expect(lines).toHaveLength(12);
  // Sampler and trainer compute the same function from the same weights.
  for (const line of lines) {
    expect(line['sampling/sampling_logp_difference/max'] ?? 0).toBeLessThan(1e-4);
    expect(line.update_applied).toBe(1);
  }
});

test('SIGINT stops after the step with a checkpoint and exit code 130; resuming gives the same as an uninterrupted run', async () => {
  const path = join(folder, 'stopped');
  const child = spawnAcoer('train', '--out', path, ...SHORT);
  const end = ended(child);
  const metrics = join(path, 'metrics.jsonl');
  await reached(
    child,
    end,
    () => existsSync(metrics) && readFileSync(metrics, 'utf8').split('\n').length >= 4,
  );
  child.kill('SIGINT');
  const { code, stderr } = await end;
  expect(stderr).toContain(`--resume ${path}`);
  expect(code).toBe(130);
  const [checkpoint] = readdirSync(join(path, 'checkpoints'));
  expect(Number(checkpoint!.slice('step-'.length))).toBe(readMetrics(metrics).length);
  const resumed = await run('--resume', path);
  expect(resumed.code).toBe(0);
  expect(untimed(path)).toEqual(untimed(whole));
  const adapter = (of: string) => readFileSync(join(of, 'final', 'adapter_model.safetensors'));
  expect(adapter(path).equals(adapter(whole))).toBe(true);
});

test('resuming a finished run does nothing', async () => {
  const before = readFileSync(join(whole, 'summary.json'), 'utf8');
  const { code, stdout } = await run('--resume', whole, '--json');
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toEqual(JSON.parse(before));
});

test.each<[string, string[], string]>([
  ['a folder that contains a run', ['--out', whole], 'already contains a run'],
  ['another seed with --resume', ['--resume', whole, '--seed', '3'], 'cannot change seed 42 -> 3'],
  ['an unknown reward', ['--reward', 'acoerr'], 'did you mean `acoer`?'],
  ['a missing file', ['nothing.yaml'], 'Cannot read the configuration nothing.yaml'],
  ['a missing model', ['--set', 'model=/nowhere'], 'no such folder'],
  ['nothing to resume', ['--resume', join(folder, 'none')], 'is not a run: it has no config.json'],
])('%s exits with 2 and a sentence', async (_, words, sentence) => {
  const { code, stdout, stderr } = await run(...words);
  expect(stderr).toContain(sentence);
  expect(stderr).not.toContain('    at ');
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});

/** The embedded model with a vocabulary that has no <think>. */
function withoutThinking(): string {
  const model = join(folder, 'plain-model');
  cpSync(join(ROOT, 'assets', 'tiny'), model, { recursive: true });
  for (const name of ['tokenizer.json', 'tokenizer_config.json']) {
    const text = readFileSync(join(model, name), 'utf8');
    writeFileSync(join(model, name), text.replaceAll('<think>', '<muse>').replaceAll('</think>', '</muse>'));
  }
  return model;
}

test('a model without <think> is said to have none, and can train on total tokens', async () => {
  const model = ['--preset', 'tiny', '--set', `model=${withoutThinking()}`, '--max-steps', '2'];
  const evaluations = ['--set', 'evalProblems=2', '--set', 'evalSampledProblems=0'];
  const noted = await run('--out', join(folder, 'noted-run'), ...model, ...evaluations);
  expect(noted.stderr).toContain('has no <think> and </think>');
  expect(noted.code).toBe(0);
  const out = join(folder, 'plain-run');
  const total = ['--set', 'rewardParams.acoer.lengthOf=total', '--set', 'formatWeight=0'];
  const trained = await run('--out', out, ...model, ...total, ...evaluations);
  expect(trained.stderr).not.toContain('has no <think> and </think>');
  expect(trained.code).toBe(0);
  // Shorter answers still earn more, although no thinking block was ever closed.
  const [line] = readMetrics(join(out, 'metrics.jsonl'));
  expect(line!['thinking/closed_ratio']).toBe(0);
  expect(line!['rewards/acoer/mean']).toBeGreaterThan(line!['accuracy/mean']!);
});
