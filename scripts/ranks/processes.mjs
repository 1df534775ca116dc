/** Runs of several ranks as processes of a script: starting them, how they end, and whether a run is that of one process. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const { readCompletions } = createRequire(import.meta.url)('../../dist/run/index.js');
const CLI = join(ROOT, 'dist', 'cli', 'main.js');

/** Of a run of seconds. */
export const SETTINGS = {
  maxSteps: 24,
  promptsPerStep: 3,
  numGenerations: 4,
  maxCompletionLength: 40,
  learningRate: 2e-3,
  evalSampledProblems: 0,
  completionsSteps: 1,
  threads: 1,
};

/** How long the others may still need to save and end, once they know of a lost rank. */
export const ENDING_S = 10;

export function check(holds, message) {
  if (!holds) throw new Error(message);
}

export const settingWords = (settings) =>
  Object.entries(settings).flatMap(([name, value]) => ['--set', `${name}=${value}`]);

const children = new Set();

/** Kills what a failed check has left. */
export function killAll() {
  for (const child of children) child.kill('SIGKILL');
}

/**
 * `acoer train ...words` as a process.
 * @param within a command that runs another, such as `ip netns exec NAME`
 */
export function start(words, env = {}, within = []) {
  const [command, ...rest] = [...within, process.execPath, CLI, 'train', ...words];
  const child = spawn(command, rest, {
    cwd: ROOT,
    env: { ...process.env, OMP_WAIT_POLICY: 'passive', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.add(child);
  const process_ = { child, text: '', code: null, ended: null, endedMs: null };
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (more) => (process_.text += more));
  process_.ended = new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      children.delete(child);
      Object.assign(process_, { code: code ?? signal, endedMs: performance.now() });
      resolve(process_);
    });
  });
  return process_;
}

/** The variables of a rank, as a launcher sets them. */
export const placeOf = (rank, size, host, port, timeoutS) => ({
  RANK: String(rank),
  WORLD_SIZE: String(size),
  MASTER_ADDR: host,
  MASTER_PORT: String(port),
  ACOER_RANKS_TOKEN: 'a token',
  ACOER_RANKS_TIMEOUT: String(timeoutS),
});

/** What the run in `folder` is doing, by its process `pid`; null: that has not opened it. */
function progressOf(folder, pid) {
  const path = join(folder, 'progress.json');
  if (!existsSync(path)) return null;
  const progress = JSON.parse(readFileSync(path, 'utf8'));
  return progress.pid === pid ? progress : null;
}

/** Waits until the first of `ranks` has opened the run, and with `loaded` also the model, or has ended. */
export async function untilOpen(folder, [first], loaded = false) {
  const isThere = () => {
    const progress = progressOf(folder, first.child.pid);
    return progress !== null && !(loaded && progress.phase === 'loading');
  };
  while (first.code === null && !isThere()) await sleep(20);
}

/** Waits for all. @throws naming one that has not ended after `limitS` */
export async function endedWithin(processes, limitS, what) {
  const late = sleep(limitS * 1000, null, { ref: false }).then(() => {
    const running = processes.filter(({ code }) => code === null).map(({ child }) => child.pid);
    if (running.length > 0)
      throw new Error(`${what}: process ${running.join(', ')} was still there after ${limitS} s`);
  });
  await Promise.race([Promise.all(processes.map(({ ended }) => ended)), late]);
}

/** What a process said of the rank that was lost. @throws unless that is one sentence, and names it */
export function sentenceOf({ code, text }, lost, pid) {
  const said = text.split('\n').filter((line) => line.startsWith('acoer: '));
  const who = `Rank ${lost} (host ${hostname()}, pid ${pid}) `;
  check(code === 1, `a process ended with ${code} after rank ${lost} was lost:\n${text}`);
  check(
    said.length === 1 &&
      said[0].startsWith(`acoer: ${who}`) &&
      /; last (at step \d+, [^.]+|seen joining)\.$/.test(said[0]),
    `not one sentence of ${who}and what it was doing:\n${text}`,
  );
  check(!/frame #|terminate called/.test(text), `C++ shows:\n${text}`);
  return said[0].slice('acoer: '.length);
}

const linesOf = (run) =>
  readFileSync(join(run, 'metrics.jsonl'), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

const hashOf = (path) => createHash('sha256').update(readFileSync(path)).digest('hex');

/** Every file of a run by its hash; one that was given back before it began has none. */
export function hashesOf(folder) {
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const paths = files.map((entry) => join(entry.parentPath ?? entry.path, entry.name)).sort();
  return paths.map((path) => `${path} ${hashOf(path)}`);
}

const CLOCKED = /^(step_time$|time\/|memory\/|micro_batches$)|per_second/;
/** Sums over the ranks are rounded in float64. */
const MOST = 1e-9;

/** @throws unless completions and adapter are those of `reference` to the bit, and metrics to the rounding of sums */
export async function checkSame(run, reference) {
  const [found, wanted] = [linesOf(run), linesOf(reference)];
  check(found.length === wanted.length, `${run} has ${found.length} steps instead of ${wanted.length}`);
  for (const [i, line] of wanted.entries()) {
    for (const [name, value] of Object.entries(line)) {
      if (CLOCKED.test(name)) continue;
      const same = found[i][name] === value || Math.abs(found[i][name] - value) <= MOST;
      check(same, `${name} of step ${i + 1} is ${found[i][name]} in ${run}, not ${value}`);
    }
  }
  for (const name of readdirSync(join(reference, 'completions'))) {
    const [own, other] = await Promise.all(
      [run, reference].map((path) => readCompletions(join(path, 'completions', name))),
    );
    check(isDeepStrictEqual(own, other), `${join(run, 'completions', name)} differs`);
  }
  const [own, other] = [run, reference].map((path) =>
    hashOf(join(path, 'final', 'adapter_model.safetensors')),
  );
  check(own === other, `the adapter of ${run} differs`);
}
