/** Training all weights instead of an adapter, on the real engine. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { createEngine } from '../../src/engine/engine';
import { resolveModel } from '../../src/models';
import { loadTrained } from '../../src/run';
import { train } from '../../src/train';
import { acoer } from '../helpers/cli';
import { metricsOf } from '../helpers/fake-run';
import { readSafetensors } from '../helpers/fixtures';
import { untimedFiles } from '../helpers/run-files';
import { asCall, type Given } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-full-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;

const full = (more: Given = {}) => ({
  model: 'tiny',
  full: true,
  device: 'cpu' as const,
  learningRate: 1e-4,
  maxSteps: 3,
  promptsPerStep: 4,
  maxCompletionLength: 64,
  evalMaxNewTokens: 64,
  evalProblems: 8,
  evalSampledProblems: 0,
  completionsSteps: 0,
  tensorboard: false,
  saveSteps: 1,
  out: join(root, `run-${folders++}`),
  ...more,
});

const finish = async (given: Given) => (await train(...asCall(given))).result();

const whole = full({ beta: 0.1 });
beforeAll(async () => {
  await finish(whole);
});

const SEQUENCE = {
  ids: Int32Array.from({ length: 40 }, (_, i) => (7 * i) % 60),
  offsets: Int32Array.of(0, 40),
  promptLengths: Int32Array.of(4),
};

test('every weight moves, away from the base model that the KL term and the evaluation before training use', async () => {
  const { directory } = await resolveModel('tiny');
  const before = readSafetensors(join(directory, 'model.safetensors'));
  const after = readSafetensors(join(whole.out, 'final', 'model.safetensors'));
  expect(Object.keys(after).sort()).toEqual(Object.keys(before).sort());
  for (const name of Object.keys(before)) expect(after[name]).not.toEqual(before[name]);
  const [one, , three] = metricsOf(whole.out);
  expect(Math.abs(one!.kl!)).toBeLessThan(1e-9);
  expect(three!.kl!).toBeGreaterThan(1e-9);
});

test("final/ is a model: its log-probs are the last checkpoint's, and it generates and goes on training", async () => {
  const final = join(whole.out, 'final');
  await using engine = await createEngine({ device: 'cpu' });
  const model = await engine.loadModel(final);
  expect(model.info.dtype).toBe('float32');
  const base = await engine.loadModel((await resolveModel('tiny')).directory);
  const policy = await loadTrained(base, join(whole.out, 'checkpoints', 'step-000003'));
  const { logprobs } = await model.score(SEQUENCE);
  expect(logprobs).toEqual((await base.score(SEQUENCE, { policy })).logprobs);
  expect(logprobs).not.toEqual((await base.score(SEQUENCE)).logprobs);
  const card = readFileSync(join(final, 'README.md'), 'utf8');
  expect(parse(card.split('---\n')[1]!)).toMatchObject({ library_name: 'transformers' });
  expect(card).toContain('from transformers import AutoModelForCausalLM');
  const answer = await acoer(
    'generate',
    '--model',
    final,
    '--prompt',
    '1+1 mod 10?',
    '--max-new-tokens',
    '8',
  );
  expect(answer.code).toBe(0);
  const again = full({ model: final, preset: 'tiny', dataset: 'tiny', maxSteps: 1 });
  await finish(again);
  expect(metricsOf(again.out)).toHaveLength(1);
});

test('a run that is interrupted resumes to the same files', async () => {
  const broken = full({ beta: 0.1 });
  for await (const { index } of await train(...asCall(broken))) if (index === 2) break;
  await expect(train({ full: false }, { resume: broken.out })).rejects.toThrow(/cannot change full/);
  await finish({ resume: broken.out });
  const files = (out: string) => {
    const contents = untimedFiles(out);
    // They name the run's own folder.
    for (const name of ['config.json', 'summary.json', 'final/README.md']) contents.delete(name);
    return contents;
  };
  expect(files(broken.out)).toEqual(files(whole.out));
});

test('a fork goes on with all weights', async () => {
  const fork = { run: whole.out, at: 2 };
  const out = join(root, 'fork');
  await expect(train({ full: false }, { fork, out })).rejects.toThrow('so full cannot change');
  await finish({ fork, out });
  const weights = (run: string) => readFileSync(join(run, 'final', 'model.safetensors'));
  expect(weights(out).equals(weights(whole.out))).toBe(true);
});

test('acoer eval --run evaluates the checkpoints', async () => {
  const run = join(root, 'copy');
  cpSync(whole.out, run, { recursive: true });
  const words = [
    'eval',
    '--run',
    run,
    '--problems',
    '4',
    '--out',
    join(root, 'evaluated'),
    '--json',
    '--base',
  ];
  const { code, stdout, stderr } = await acoer(...words);
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  const subjects = stdout
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { label: string }).label);
  expect(subjects).toEqual(['base', 'copy@1', 'copy@2', 'copy@3']);
});

test.each<[Given, RegExp]>([
  [{ dtype: 'bfloat16' }, /dtype: must be float32 or float64 when `full` trains all weights/],
  [{ adapter: 'mine' }, /adapter: is set, but `full` trains all weights/],
])('%j is refused with all weights', async (more, message) => {
  await expect(train(...asCall(full(more)))).rejects.toThrow(message);
});
