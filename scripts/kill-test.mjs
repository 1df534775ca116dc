/**
 * Kills runs with SIGKILL at random moments and resumes them:
 *
 *   node scripts/kill-test.mjs [--kills 200] [--seed 1] [--keep FOLDER]
 *
 * A run of the embedded model, with two iterations per batch and evaluations, is killed again and again until
 * it ends; then the next one begins, until the requested number of kills is reached. After every kill the run
 * must resume from its newest checkpoint, and metrics.jsonl and TensorBoard's event file must have every step
 * up to some step exactly once. At the end of each run all metrics, completions, checkpoints and the adapter must equal those of a
 * run that was never killed, and no temporary file and no lock may be left. Exit code 0 if all of that held.
 * Needs `npm run build:ts` and the addon.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { scriptArguments } from './lib/arguments.mjs';
import { untimedContent } from './lib/untimed.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(import.meta.url);
const { uniformStream } = require('../dist/base/rng.js');
const { unframe } = require('../dist/run/tensorboard/protobuf.js');
const { eventTime } = require('../dist/run/tensorboard/events.js');
const CLI = join(ROOT, 'dist', 'cli', 'main.js');
const MAX_STEPS = 24;
const SETTINGS = {
  maxSteps: MAX_STEPS,
  numIterations: 2,
  promptsPerStep: 2,
  maxCompletionLength: 64,
  saveSteps: 2,
  keepCheckpoints: 3,
  evalSteps: 5,
  evalProblems: 4,
  evalSampledProblems: 4,
  evalMaxNewTokens: 64,
  completionsSteps: 3,
  threads: 1,
};

const { values } = scriptArguments(import.meta.url, {
  options: {
    kills: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    keep: { type: 'string' },
  },
});
const kills = Number(values.kills);

/** A failure can be reproduced with the same seed, apart from the machine's timing. */
const random = uniformStream(BigInt(values.seed));

function check(holds, message) {
  if (!holds) throw new Error(message);
}

/** Runs `acoer train` and kills it after `killMs` (null: never). */
function runAcoer(words, killMs) {
  const child = spawn(process.execPath, [CLI, 'train', ...words], { cwd: ROOT });
  const begun = performance.now();
  let stderr = '';
  child.stdout.resume();
  child.stderr.on('data', (chunk) => (stderr += chunk));
  const timer = killMs === null ? undefined : setTimeout(() => child.kill('SIGKILL'), killMs);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code, killed: signal === 'SIGKILL', stderr, elapsedMs: performance.now() - begun });
    });
  });
}

const begin = (folder) => [
  '--out',
  folder,
  ...Object.entries(SETTINGS).flatMap(([name, value]) => ['--set', `${name}=${value}`]),
];

function stepsWritten(folder) {
  const path = join(folder, 'metrics.jsonl');
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line).step);
}

/** Steps of the events in TensorBoard's newest file, which begins by voiding older ones. */
function eventSteps(folder) {
  const path = join(folder, 'tensorboard');
  const name = existsSync(path) ? readdirSync(path).sort().at(-1) : undefined;
  const events = name === undefined ? [] : [...unframe(readFileSync(join(path, name)))];
  return events.map((event) => eventTime(event).step).filter((step) => step > 0);
}

const isEachOnce = (steps) => steps.every((step, i) => step === i + 1);

function checkpointSteps(folder) {
  const path = join(folder, 'checkpoints');
  const names = existsSync(path) ? readdirSync(path) : [];
  return names.filter((name) => /^step-\d+$/.test(name)).map((name) => Number(name.slice('step-'.length)));
}

/** Content of every file by path, except what the run was doing last, and checksums and the event file, which cover wall times. */
function filesOf(folder) {
  const names = readdirSync(folder, { recursive: true })
    .filter(
      (name) =>
        statSync(join(folder, name)).isFile() &&
        !/SHA256SUMS$|tfevents|^progress\.json$/.test(basename(name)),
    )
    .sort();
  return new Map(names.map((name) => [name, untimedContent(join(folder, name))]));
}

function checkEqual(folder, whole) {
  const [found, wanted] = [filesOf(folder), filesOf(whole)];
  check(
    JSON.stringify([...found.keys()]) === JSON.stringify([...wanted.keys()]),
    `${folder} contains ${[...found.keys()].join(', ')} instead of ${[...wanted.keys()].join(', ')}`,
  );
  for (const [name, content] of wanted) check(found.get(name) === content, `${name} differs in ${folder}`);
}

function checkResumed(stderr, before, folder) {
  const match = /resuming after step (\d+)/.exec(stderr);
  // It was killed before getting that far, or the run had not begun.
  if (match === null) return 0;
  check(
    Number(match[1]) === before.checkpoint,
    `${folder} resumed after step ${match[1]}, not ${before.checkpoint}`,
  );
  check(!stderr.includes('damaged'), `a kill left a damaged checkpoint in ${folder}:\n${stderr}`);
  return Math.max(0, before.written - before.checkpoint);
}

/** One run, killed until it ends or the number of kills is reached. */
async function killedRun(folder, whole, wholeMs, killsLeft) {
  const count = { kills: 0, repeated: 0, wholeMs };
  for (;;) {
    const resumed = existsSync(join(folder, 'config.json'));
    const before = {
      checkpoint: Math.max(0, ...checkpointSteps(folder)),
      written: stepsWritten(folder).length,
    };
    const words = resumed ? ['--resume', folder] : begin(folder);
    const killMs = count.kills < killsLeft ? random() * count.wholeMs : null;
    const { code, killed, stderr, elapsedMs } = await runAcoer(words, killMs);
    if (resumed) count.repeated = Math.max(count.repeated, checkResumed(stderr, before, folder));
    const steps = stepsWritten(folder);
    check(isEachOnce(steps), `metrics.jsonl of ${folder} has the steps ${steps.join(' ')}`);
    const events = eventSteps(folder);
    check(isEachOnce(events), `the event file of ${folder} has the steps ${events.join(' ')}`);
    if (killed) {
      count.kills++;
      continue;
    }
    // A whole run takes longer on a busy machine, and kills should fall within it.
    if (!resumed) count.wholeMs = Math.min(wholeMs, elapsedMs);
    check(code === 0, `exit code ${code} of ${words.join(' ')}:\n${stderr}`);
    check(steps.length === MAX_STEPS, `metrics.jsonl of ${folder} ends at step ${steps.length}`);
    check(events.length === MAX_STEPS, `the event file of ${folder} ends at step ${events.length}`);
    checkEqual(folder, whole);
    return count;
  }
}

const work = values.keep ?? mkdtempSync(join(tmpdir(), 'acoer-kill-'));
mkdirSync(work, { recursive: true });
try {
  const whole = join(work, 'whole');
  const { code, stderr, elapsedMs } = await runAcoer(begin(whole), null);
  check(code === 0, `the run without kills failed:\n${stderr}`);
  const total = { kills: 0, runs: 0, repeated: 0 };
  let wholeMs = elapsedMs;
  while (total.kills < kills) {
    const folder = join(work, `run-${total.runs}`);
    const count = await killedRun(folder, whole, wholeMs, kills - total.kills);
    total.kills += count.kills;
    total.runs++;
    wholeMs = count.wholeMs;
    total.repeated = Math.max(total.repeated, count.repeated);
    console.error(`run ${total.runs}: ${total.kills} of ${kills} kills`);
    if (values.keep === undefined) rmSync(folder, { recursive: true });
  }
  check(total.repeated < SETTINGS.saveSteps + 1, `${total.repeated} steps were repeated`);
  console.log(JSON.stringify({ ...total, steps: MAX_STEPS, saveSteps: SETTINGS.saveSteps }));
} catch (error) {
  console.error(`kill-test: ${error.message}`);
  process.exitCode = 1;
} finally {
  if (values.keep === undefined) rmSync(work, { recursive: true, force: true });
}
