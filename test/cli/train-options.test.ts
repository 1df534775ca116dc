import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { define, trainOptions } from '../../src/cli/train';

/** The options of `train` for the command line `words`. */
function optionsOf(...words: string[]) {
  const command = new Command('train').exitOverride();
  define(command);
  let seen: ReturnType<typeof trainOptions> | undefined;
  command.action((config: string | undefined, flags: Parameters<typeof trainOptions>[1]) => {
    seen = trainOptions(config, flags);
  });
  command.parse(words, { from: 'user' });
  return seen!;
}

const folder = mkdtempSync(join(tmpdir(), 'acoer-cli-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('no options give the embedded default', () => {
  expect(optionsOf()).toMatchObject({ model: 'tiny', reward: 'acoer', maxSteps: 200, out: undefined });
});

test('--set overrides options, options override the file, the file overrides the preset', () => {
  const file = join(folder, 'run.yaml');
  writeFileSync(file, 'preset: slide\nseed: 1\nmaxSteps: 10\nlearningRate: 0.001\n');
  const options = optionsOf(
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
  expect(options).toMatchObject({
    lrSchedulerType: 'constant',
    learningRate: 0.001,
    maxSteps: 20,
    seed: 3,
    reward: 'grpo-lp',
    out: 'x',
  });
});

test('presets', () => {
  expect(optionsOf('--preset', 'slide', '--reward', 'grpo-lp')).toMatchObject({
    lrSchedulerType: 'constant',
    model: 'tiny',
  });
  expect(optionsOf('--preset', 'paper')).toMatchObject({ numGenerations: 16, promptsPerStep: 1 });
  expect(() => optionsOf('--preset', 'papre')).toThrow('did you mean `paper`?');
});

test('--resume takes the folder it names, or --out', () => {
  mkdirSync(join(folder, 'run'));
  expect(optionsOf('--resume', 'runs/a')).toEqual({ resume: 'runs/a' });
  expect(optionsOf('--out', 'runs/b', '--resume')).toEqual({ resume: 'runs/b' });
  expect(optionsOf('--resume', 'runs/a', '--set', 'saveSteps=2', '--max-steps', '9')).toEqual({
    resume: 'runs/a',
    saveSteps: 2,
    maxSteps: 9,
  });
});
