/**
 * Kills sweeps with SIGKILL at random moments, the sweep itself or one of its runs, and resumes them:
 *
 *   node scripts/kill-sweep.mjs [N] [--seed 1] [--keep FOLDER]
 *
 * A sweep of the embedded model (two rewards, two seeds, evaluations) is killed again and again until it ends; then the
 * next one begins, until N kills (20 by default) are reached. A killed sweep's runs must end by themselves, and --resume
 * must go on with them. At the end all files of every run must equal those of a sweep that was never killed, but for
 * times and for the checkpoints that an interrupted run adds; all runs must be done, and no temporary file and no lock
 * may be left. Exit code 0 if all of that held. Needs `npm run build:ts` and the addon.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
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
const { readSweep } = require('../dist/sweep/index.js');
const { lockOwner, lockState } = require('../dist/run/lock.js');
const CLI = join(ROOT, 'dist', 'cli', 'main.js');
const SWEEP = `
name: killed
base:
  preset: tiny
  maxSteps: 8
  saveSteps: 2
  promptsPerStep: 2
  maxCompletionLength: 48
  evalProblems: 4
  evalSampledProblems: 4
  evalMaxNewTokens: 48
runs:
  - { name: acoer }
  - { name: grpo-lp, set: { reward: grpo-lp } }
grid: { seed: [1, 2] }
parallel: 2
`;

const { values, positionals } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: { seed: { type: 'string', default: '1' }, keep: { type: 'string' } },
});
const kills = Number(positionals[0] ?? 20);

/** A failure can be reproduced with the same seed, apart from the machine's timing. */
const random = uniformStream(BigInt(values.seed));

function check(holds, message) {
  if (!holds) throw new Error(message);
}

const runsOf = (out) => (existsSync(join(out, 'sweep.json')) ? readSweep(out).runs : []);

/** The process of a run that is running, chosen at random; null: none is. */
function randomRun(out) {
  const held = runsOf(out)
    .map((run) => join(out, run.folder))
    .filter((folder) => existsSync(folder) && lockState(folder) === 'held');
  return held.length === 0 ? null : (lockOwner(held[Math.floor(random() * held.length)])?.pid ?? null);
}

/** Kills the sweep, or one of its runs. @returns what was killed; null: nothing was there */
function kill(child, out) {
  const pid = random() < 0.5 ? child.pid : randomRun(out);
  if (pid === null || child.exitCode !== null) return null;
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // It has ended in the meantime.
    if (error.code === 'ESRCH') return null;
    throw error;
  }
  return pid === child.pid ? 'sweep' : 'run';
}

/** Runs `acoer sweep`, and kills something after `killMs` (null: never). */
function runSweep(file, out, killMs) {
  const resumed = existsSync(join(out, 'sweep.json')) ? ['--resume'] : [];
  const child = spawn(process.execPath, [CLI, 'sweep', file, '--out', out, ...resumed], { cwd: ROOT });
  const begun = performance.now();
  let output = '';
  let killed = null;
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  const attempt = () => {
    killed = kill(child, out);
    // No run has its lock yet.
    if (killed === null) timer = setTimeout(attempt, 50);
  };
  let timer = killMs === null ? undefined : setTimeout(attempt, killMs);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      clearTimeout(timer);
      resolve({ code, killed, output, elapsedMs: performance.now() - begun });
    });
  });
}

/** Content of a run's files by path, without what covers wall times, and without its checkpoints. */
function filesOf(folder) {
  const names = readdirSync(folder, { recursive: true })
    .filter((name) => statSync(join(folder, name)).isFile())
    .filter(
      (name) => !/^checkpoints\//.test(name) && !/SHA256SUMS$|tfevents|^progress\.json$/.test(basename(name)),
    )
    .sort();
  return new Map(names.map((name) => [name, untimedContent(join(folder, name))]));
}

function checkEqual(out, whole) {
  for (const { folder } of runsOf(whole)) {
    const [found, wanted] = [filesOf(join(out, folder)), filesOf(join(whole, folder))];
    const [names, expected] = [found, wanted].map((files) => [...files.keys()].join(', '));
    check(names === expected, `${folder} in ${out} contains ${names} instead of ${expected}`);
    for (const [name, content] of wanted)
      check(found.get(name) === content, `${name} differs in ${join(out, folder)}`);
  }
  const left = readdirSync(out, { recursive: true }).filter((name) =>
    /^(\.tmp-|lock\.json$)/.test(basename(name)),
  );
  check(left.length === 0, `${out} still has ${left.join(', ')}`);
}

/** One sweep, killed until it ends or the number of kills is reached. */
async function killedSweep(file, out, whole, wholeMs, killsLeft) {
  const count = { sweep: 0, run: 0, wholeMs };
  for (let first = true; ; first = false) {
    const made = count.sweep + count.run;
    const { code, killed, output, elapsedMs } = await runSweep(
      file,
      out,
      made < killsLeft ? random() * count.wholeMs : null,
    );
    if (killed !== null) count[killed]++;
    if (killed === 'sweep') continue;
    // The machine may be less busy now, and kills should fall within a sweep.
    if (killed === null && first) count.wholeMs = Math.min(wholeMs, elapsedMs);
    // A run that was killed is tried again, so only a second kill of the same can have failed it.
    check(code === 0 || (code === 1 && killed === 'run'), `exit code ${code}:\n${output}`);
    if (code === 1) continue;
    const states = runsOf(out).map(({ state }) => state);
    check(
      states.every((state) => state === 'done'),
      `exit code 0, and the states are ${states.join(', ')}`,
    );
    checkEqual(out, whole);
    return count;
  }
}

const work = values.keep ?? mkdtempSync(join(tmpdir(), 'acoer-kill-sweep-'));
mkdirSync(work, { recursive: true });
try {
  const file = join(work, 'sweep.yaml');
  writeFileSync(file, SWEEP);
  const whole = join(work, 'whole');
  const { code, output, elapsedMs } = await runSweep(file, whole, null);
  check(code === 0, `the sweep without kills failed:\n${output}`);
  let wholeMs = elapsedMs;
  const total = { sweeps: 0, killedSweeps: 0, killedRuns: 0 };
  while (total.killedSweeps + total.killedRuns < kills) {
    const out = join(work, `sweep-${total.sweeps}`);
    const left = kills - total.killedSweeps - total.killedRuns;
    const count = await killedSweep(file, out, whole, wholeMs, left);
    wholeMs = count.wholeMs;
    total.sweeps++;
    total.killedSweeps += count.sweep;
    total.killedRuns += count.run;
    console.error(`sweep ${total.sweeps}: ${total.killedSweeps + total.killedRuns} of ${kills} kills`);
    if (values.keep === undefined) rmSync(out, { recursive: true });
  }
  console.log(JSON.stringify(total));
} catch (error) {
  console.error(`kill-sweep: ${error.message}`);
  process.exitCode = 1;
} finally {
  if (values.keep === undefined) rmSync(work, { recursive: true, force: true });
}
