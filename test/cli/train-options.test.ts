import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { define, trainCall } from '../../src/cli/train';

/** What `train` is called with for the command line `words`. */
function callOf(...words: string[]) {
  const command = new Command('train').exitOverride();
  define(command);
  let seen: ReturnType<typeof trainCall> | undefined;
  command.action((config: string | undefined, flags: Parameters<typeof trainCall>[1]) => {
    seen = trainCall(config, flags);
  });
  command.parse(words, { from: 'user' });
  return seen!;
}

const folder = mkdtempSync(join(tmpdir(), 'acoer-cli-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('no options give the embedded default', () => {
  expect(callOf()).toMatchObject([{ model: 'tiny', reward: 'acoer', maxSteps: 200 }, { out: undefined }]);
});

test('--set overrides options, options override the file, the file overrides the preset', () => {
  const file = join(folder, 'run.yaml');
  writeFileSync(file, 'preset: slide\nseed: 1\nmaxSteps: 10\nlearningRate: 0.001\n');
  const call = callOf(
    file,
    '--max-steps',
    '20',
    '--seed',
    '2',
    '--set',
    'seed=3',
    '--reward',
    'grpo-lp',
    '--out',
    'x',
  );
  expect(call).toMatchObject([
    {
      lrSchedulerType: 'constant',
      learningRate: 0.001,
      maxSteps: 20,
      seed: 3,
      reward: 'grpo-lp',
    },
    { out: 'x' },
  ]);
});

test('presets', () => {
  expect(callOf('--preset', 'slide', '--reward', 'grpo-lp')[0]).toMatchObject({
    lrSchedulerType: 'constant',
    model: 'tiny',
  });
  expect(callOf('--preset', 'paper')[0]).toMatchObject({ numGenerations: 16, promptsPerStep: 1 });
  expect(() => callOf('--preset', 'papre')).toThrow('did you mean `paper`?');
});

test('--resume takes the folder it names, or --out', () => {
  mkdirSync(join(folder, 'run'));
  expect(callOf('--resume', 'runs/a')).toEqual([{}, { resume: 'runs/a' }]);
  expect(callOf('--out', 'runs/b', '--resume')).toEqual([{}, { resume: 'runs/b' }]);
  expect(callOf('--resume', 'runs/a', '--set', 'saveSteps=2', '--max-steps', '9')).toEqual([
    { saveSteps: 2, maxSteps: 9 },
    { resume: 'runs/a' },
  ]);
});

test('an option of train() is no setting, also for a run that is resumed', () => {
  for (const words of [[], ['--resume', 'runs/a']]) {
    expect(() => callOf(...words, '--set', 'trust=true')).toThrow('Configuration: trust: unknown setting');
  }
});

test('--sampler-url names servers, over the file and under --set', () => {
  const servers = ['http://a:1', 'http://b:2'];
  const words = servers.flatMap((url) => ['--sampler-url', url]);
  expect(callOf(...words)[0].sampler).toMatchObject({ type: 'vllm', servers, requests: 128 });
  const file = join(folder, 'served.yaml');
  writeFileSync(file, 'sampler: { type: vllm, servers: [http://c:3], requests: 5, patienceSeconds: 9 }\n');
  const over = callOf(file, ...words, '--set', 'sampler.requests=7')[0].sampler;
  expect(over).toMatchObject({ servers, requests: 7, patienceSeconds: 9 });
});
