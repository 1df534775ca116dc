/**
 * Loses power at every moment of a run and resumes it:
 *
 *   node scripts/power-loss.mjs [--states 2000] [--resumes 20] [--random 3] [--seed 1] [--dist FOLDER]
 *
 * Every call with which runs of the embedded model (power-loss/workload.mjs) change files is recorded. For
 * each moment between two calls the states are made in which a disk may then be found under the model of
 * power-loss/disk.mjs, equal ones once; of all of them `--states` are drawn. Each is written to a folder and
 * opened as `acoer train --resume` opens it, and must hold the newest checkpoint whose writing had returned,
 * its metrics and its tables (power-loss/check.mjs); `--resumes` of them are resumed to the end and must give
 * the adapter of the run that was not interrupted. Prints one line of JSON; exit code 0 if everything held.
 * Needs a C compiler (CC, default cc), `npm run build:ts` and the addon. --dist: another build to try.
 */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { checkResumed, checkRun, heard, nothingSaid } from './power-loss/check.mjs';
import { Disk } from './power-loss/disk.mjs';
import { compileRecorder, readLog, recordedEnv } from './power-loss/log.mjs';
import { crashStates, stateKey } from './power-loss/states.mjs';
import { loadPackage } from './power-loss/workload.mjs';
import { scriptArguments } from './lib/arguments.mjs';

const { values } = scriptArguments(import.meta.url, {
  options: {
    states: { type: 'string', default: '2000' },
    resumes: { type: 'string', default: '20' },
    random: { type: 'string', default: '3' },
    seed: { type: 'string', default: '1' },
    dist: { type: 'string', default: join(import.meta.dirname, '..', 'dist') },
  },
});
const [wantedStates, wantedResumes, randomStates] = [values.states, values.resumes, values.random].map(
  Number,
);

/** Runs the workload under the recorder; its files are left in `root`. */
function recordWorkload(work, root, dist) {
  const log = join(work, 'calls');
  const env = recordedEnv(compileRecorder(work), root, log);
  const words = [
    join(import.meta.dirname, 'power-loss', 'workload.mjs'),
    dist,
    root,
    join(work, 'problems.jsonl'),
  ];
  const { status, stderr } = spawnSync(process.execPath, words, { env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`The workload failed:\n${stderr}`);
  return readLog(log, root);
}

/** A call that the recorder missed would show here. */
function checkReplay(root, tree) {
  const names = readdirSync(root, { recursive: true }).sort();
  const replayed = [...tree.keys()].sort();
  if (names.join('\n') !== replayed.join('\n'))
    throw new Error('The replayed calls give other names than the run.');
  for (const [path, { content }] of tree) {
    if (content !== null && !content().equals(readFileSync(join(root, path)))) {
      throw new Error(`The replayed calls give another ${path} than the run.`);
    }
  }
}

/** The final adapters by run and number of steps, each as it was when the run said that it had ended. */
function referencesOf(calls) {
  const disk = new Disk();
  let said = nothingSaid();
  const references = new Map();
  for (const call of calls) {
    disk.apply(call);
    if (call.op !== 'mark') continue;
    said = heard(said, call.path);
    if (said.finished === null) continue;
    const adapters = references.get(said.run) ?? new Map();
    adapters.set(
      said.finished,
      disk.whole(`runs/${said.run}`).get('final/adapter_model.safetensors').content(),
    );
    references.set(said.run, adapters);
  }
  return references;
}

/** Every distinct state at every moment, with what the program had said and written. */
function* momentsOf(calls, random) {
  const disk = new Disk();
  const seen = new Set();
  let said = nothingSaid();
  for (const [index, call] of calls.entries()) {
    disk.apply(call);
    if (call.op === 'mark') said = heard(said, call.path);
    // In the middle of a file little changes from one write to the next.
    if (said.run === '' || (calls[index + 1]?.op === 'write' && random() < 0.9)) continue;
    const path = `runs/${said.run}`;
    const written = [...disk.whole(path).keys()];
    for (const { tree, what } of crashStates(disk, path, randomStates, random)) {
      const key = `${JSON.stringify(said)}\n${stateKey(tree)}`;
      if (seen.has(key)) continue;
      seen.add(key);
      yield { call: index, tree, what, said, written };
    }
  }
}

/** `count` of them, each as likely as any other, in their order. */
function drawn(items, count, random) {
  const kept = [];
  let total = 0;
  for (const item of items) {
    total++;
    if (kept.length < count) kept.push(item);
    else if (random() < count / total) kept[Math.floor(random() * count)] = item;
  }
  return { kept: kept.sort((a, b) => a.call - b.call), total };
}

function materialise(folder, tree) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [path, { content }] of tree) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    if (content === null) mkdirSync(join(folder, path), { recursive: true });
    else writeFileSync(join(folder, path), content());
  }
}

async function main(work) {
  const root = join(realpathSync(work), 'disk');
  mkdirSync(root);
  const dist = resolve(values.dist);
  const calls = recordWorkload(work, root, dist);
  const whole = new Disk();
  calls.forEach((call) => whole.apply(call));
  checkReplay(root, whole.whole());
  const references = referencesOf(calls);
  const api = loadPackage(dist);
  const random = api.uniformStream(BigInt(values.seed));
  const { kept, total } = drawn(momentsOf(calls, random), wantedStates, random);
  console.error(
    `${calls.length} calls recorded and replayed; ${total} states, ${kept.length} of them are tried`,
  );
  const failures = new Map();
  const every = Math.max(1, Math.floor(kept.length / Math.max(1, wantedResumes)));
  let resumed = 0;
  for (const [index, { call, tree, what, said, written }] of kept.entries()) {
    const folder = join(work, 'found', said.run);
    const reference = { written, adapters: references.get(said.run) ?? new Map() };
    materialise(folder, tree);
    try {
      await checkRun(api, folder, said, reference);
      if (index % every !== every - 1 || resumed >= wantedResumes) continue;
      resumed++;
      materialise(folder, tree);
      await checkResumed(api, folder, said, reference);
    } catch (error) {
      const kind = error.message.replaceAll(folder, '').replace(/\d+/g, 'N');
      const first = failures.get(kind);
      if (first) first.states++;
      else failures.set(kind, { states: 1, message: error.message, run: said.run, call, what });
    }
  }
  const failed = [...failures.values()].reduce((sum, { states }) => sum + states, 0);
  for (const { states, message, run, call, what } of failures.values()) {
    console.error(`${states} states: ${message} (first: run ${run}, after call ${call}; ${what})`);
  }
  const counts = { calls: calls.length, possible: total, states: kept.length, resumed, failed };
  console.log(JSON.stringify({ ...counts, failures: [...failures.values()] }));
  return failed === 0 ? 0 : 1;
}

const work = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'acoer-power-loss-'));
try {
  process.exitCode = await main(work);
} catch (error) {
  console.error(`power-loss: ${error.message}`);
  process.exitCode = 1;
} finally {
  rmSync(work, { recursive: true, force: true });
}
