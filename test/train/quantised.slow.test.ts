/** Runs over a base in 8 bits, on the real engine. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openModel } from '../../src/chat';
import type { CommonEvent } from '../../src/life/events';
import { train } from '../../src/train';
import { acoer } from '../helpers/cli';
import { metricsOf } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-quantised-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;

const given = (more: Given = {}) => ({
  model: 'tiny',
  device: 'cpu' as const,
  quantization: 'int8' as const,
  beta: 0.1,
  learningRate: 1e-3,
  maxSteps: 3,
  promptsPerStep: 4,
  maxCompletionLength: 64,
  evalMaxNewTokens: 64,
  evalProblems: 4,
  evalSampledProblems: 0,
  tensorboard: false,
  saveSteps: 1,
  out: join(root, `run-${folders++}`),
  ...more,
});

const run = given();
const events: CommonEvent[] = [];
beforeAll(async () => {
  const onEvent = (event: object) => events.push(event as CommonEvent);
  await (await train(...asCall({ ...run, onEvent }))).result();
});

test('sampler, trainer and reference compute with the same weights', () => {
  expect(events).toContainEqual(expect.objectContaining({ type: 'loaded', quantization: 'int8' }));
  const steps = metricsOf(run.out);
  expect(Math.abs(steps[0]!.kl!)).toBeLessThan(1e-9);
  expect(steps[2]!.kl!).toBeGreaterThan(1e-9);
  for (const step of steps) expect(step['sampling/sampling_logp_difference/max']).toBeLessThan(1e-4);
});

test('the base, and the file of the adapter, are those of any run', () => {
  const config = JSON.parse(readFileSync(join(run.out, 'config.json'), 'utf8')) as { quantization: string };
  expect(config.quantization).toBe('int8');
  expect(readdirSync(join(run.out, 'final'))).toContain('adapter_model.safetensors');
  const card = readFileSync(join(run.out, 'final', 'README.md'), 'utf8');
  expect(card).toContain('| base weights | int8, quantised when loaded |');
});

test('a run goes on over the same base, and a fork may change it', async () => {
  const going = train({ quantization: null, maxSteps: 4 }, { resume: run.out });
  await expect(going).rejects.toThrow(/quantization/);
  const fork = { run: run.out, at: 1 };
  const changed = await train({ quantization: null }, { fork, out: join(root, 'fork') });
  await changed.result();
  expect(metricsOf(join(root, 'fork'))).toHaveLength(3);
});

test('who asks the run, or evaluates it, has its base', async () => {
  const ask = async (of: string, quantization?: null) => {
    await using model = await openModel(of, { device: 'cpu', quantization });
    const messages = [{ role: 'user' as const, content: '3+4 mod 10?' }];
    return await model.chat(messages, { temperature: 0, maxNewTokens: 24, weights: 'base' }).result();
  };
  expect((await ask(run.out)).logprobs).not.toEqual((await ask(run.out, null)).logprobs);
  const out = join(root, 'evaluated');
  const { code, stderr } = await acoer('eval', '--run', run.out, '--problems', '4', '--out', out);
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  const records = readdirSync(out).map((name) => readFileSync(join(out, name), 'utf8'));
  expect(records.filter((text) => /"quantization": ?"int8"/.test(text))).toHaveLength(3);
});

test('nf4 is refused for rows that are no whole blocks, with exit code 2', async () => {
  const { code, stderr } = await acoer(
    'generate',
    '--model',
    'tiny',
    '--prompt',
    '1',
    '--quantization',
    'nf4',
  );
  expect(code).toBe(2);
  expect(stderr).toMatch(/rows of 96, which is no multiple of 64; quantise to int8/);
});
