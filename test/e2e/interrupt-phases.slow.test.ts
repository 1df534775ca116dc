/** Ctrl-C in every phase of `acoer train`: exit code 130, and a run that resumes as if nothing had happened. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { builtCli, type CommandResult, ended, linesFile, ROOT, spawnAcoer } from '../helpers/cli';
import { untimedFiles } from '../helpers/run-files';

jest.setTimeout(600_000);

const folder = mkdtempSync(join(tmpdir(), 'acoer-phases-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const dist = dirname(dirname(builtCli()));
const compiled = (path: string) => JSON.stringify(join(dist, path));

/** Sends the signal from inside, so that it arrives in the middle of what is named, however slow the machine. */
const INTERRUPT = `const interrupt = () => setImmediate(() => process.kill(process.pid, 'SIGINT'));`;

/** Interrupts when the watchdog first hears of `phase`. */
const inPhase = (phase: string) => `
  const { Watchdog } = require(${compiled('life/watchdog/index.js')});
  const { enter } = Watchdog.prototype;
  let done = false;
  Watchdog.prototype.enter = function (phase) {
    enter.call(this, phase);
    if (!done && phase === ${JSON.stringify(phase)}) { done = true; interrupt(); }
  };`;

/** Interrupts in the first call of the file's function `name`; every call does `what` first. */
const inCall = (file: string, name: string, what: string) => `
  const owner = require(${compiled(file)});
  let done = false;
  const before = owner[${JSON.stringify(name)}];
  owner[${JSON.stringify(name)}] = (...given) => {
    if (!done) interrupt();
    done = true;
    ${what}
    return before(...given);
  };`;

const FULL = `throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });`;

/** In the order in which a run meets them; each goes on where the last was interrupted. */
const PHASES: readonly [name: string, script: string][] = [
  ['the data is read', inCall('data/open.js', 'openRows', '')],
  ['prompts are measured', inCall('train/long-prompts.js', 'skippedPrompts', '')],
  ['the model is loaded', inPhase('loading')],
  ['the base model is evaluated', inPhase('baseEvaluation')],
  ['prompts are chosen and completions decoded', inPhase('generate')],
  ['a completion is graded', inPhase('grade')],
  ['rewards are computed', inPhase('reward')],
  ['log-probs are computed', inPhase('score')],
  ['the backward pass runs', inPhase('train')],
  ['the optimiser steps', inPhase('optimizer')],
  ['the policy is evaluated', inPhase('evaluation')],
  ['a checkpoint waits for a full disk', inCall('run/checkpoint.js', 'saveCheckpoint', FULL)],
  ['a checkpoint is written', inPhase('checkpoint')],
];

const data = linesFile(
  Array.from({ length: 64 }, (_, i) => ({
    problem: `${i % 8}+${i >> 3} mod 10?`,
    answer: `${(i % 8) + (i >> 3)}`,
  })),
);
const SETTINGS = Object.entries({
  dataset: data,
  promptsPerStep: 2,
  numGenerations: 4,
  maxCompletionLength: 48,
  numIterations: 1,
  evalProblems: 4,
  evalSampledProblems: 0,
  evalMaxNewTokens: 32,
  evalSteps: 4,
  saveSteps: 2,
}).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
const NEW = ['train', '--preset', 'tiny', '--threads', '1', '--max-steps', '12', ...SETTINGS, '--out'];

function acoerWith(script: string, ...words: string[]): Promise<CommandResult> {
  const path = join(folder, 'script.cjs');
  writeFileSync(path, `${INTERRUPT}\n${script}`);
  return ended(spawn(process.execPath, ['--require', path, builtCli(), ...words], { cwd: ROOT }));
}

const run = join(folder, 'interrupted');
const words = () => (existsSync(join(run, 'config.json')) ? ['train', '--resume', run] : [...NEW, run]);

test.each(PHASES)('while %s', async (_, script) => {
  const { code, stderr } = await acoerWith(script, ...words());
  expect({ code, stderr }).toMatchObject({ code: 130 });
  expect(stderr).toContain('stopping; press Ctrl-C again');
  expect(stderr).toMatch(/acoer: [Ii]nterrupted/);
  expect(stderr).not.toContain('    at ');
  expect(existsSync(join(run, 'lock.json'))).toBe(false);
});

test('afterwards the run ends like one that was never interrupted', async () => {
  const resumed = await ended(spawnAcoer(...words()));
  expect(resumed).toMatchObject({ code: 0 });
  const whole = join(folder, 'whole');
  expect(await ended(spawnAcoer(...NEW, whole))).toMatchObject({ code: 0 });
  const [files, expected] = [untimedFiles(run), untimedFiles(whole)];
  // An interruption leaves a checkpoint where the other run has none.
  const compared = (names: Iterable<string>) => [...names].filter((name) => !name.startsWith('checkpoints'));
  expect(compared(files.keys())).toEqual(compared(expected.keys()));
  for (const name of compared(expected.keys()))
    expect([name, files.get(name)]).toEqual([name, expected.get(name)]);
});
