/**
 * Mutates files of every kind that acoer reads: each must give a value or an error with one of our codes.
 *
 *   node scripts/fuzz-files.mjs [--seconds 60] [--seed 1] [--kind NAME]... [--workers 1]
 *                               [--keep FOLDER] [--replay FOLDER]
 *
 *   --seconds   divided evenly among the kinds
 *   --seed      case n of a kind is a function of seed, kind and n
 *   --keep      where the file of a finding is written (default: a temporary folder)
 *   --replay    no mutations: read every file in FOLDER/<kind>/ once; folders with other names are skipped
 *
 * Findings: an error without one of our codes, a case that hangs or takes over 3 s of CPU time, memory that
 * grows by more than 300 MB in one case, a process that dies, a property added to Object.prototype. Prints a
 * line per kind; exits with 1 if there are findings. Needs the compiled package and addon (`npm run build`).
 */
import { fork } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const require = createRequire(import.meta.url);
const { KINDS } = require('./lib/fuzz-kinds.cjs');
const { mutateFile } = require('./lib/fuzz-mutate.cjs');
const { pick, randomFrom } = require('./lib/fuzz-random.cjs');

const LIMITS = { cpuMs: 3_000, wallMs: 60_000, growthBytes: 300e6, heapMb: 768 };
const CODES = new Set([
  'BAD_ARGUMENT', 'BAD_SHAPE', 'BAD_FILE', 'BAD_CONFIG', 'BAD_INPUT', 'RUN_EXISTS', 'RUN_LOCKED',
]); // prettier-ignore

/** What went wrong when reading one file, or null. */
async function problemOf(read) {
  const before = process.cpuUsage();
  const rssBefore = process.resourceUsage().maxRSS * 1024;
  let problem = null;
  try {
    await read();
  } catch (error) {
    if (typeof error !== 'object' || error === null || !CODES.has(error.code))
      problem = `${error?.stack ?? error}`;
    else if (typeof error.message !== 'string' || error.message === '')
      problem = 'an error without a message';
    else if (error.message.length > 20_000) problem = `a message of ${error.message.length} characters`;
  }
  const { user, system } = process.cpuUsage(before);
  const ms = (user + system) / 1000;
  const growth = process.resourceUsage().maxRSS * 1024 - rssBefore;
  const added = Object.keys(Object.getOwnPropertyDescriptors(Object.prototype)).length;
  if (added !== problemOf.properties) problem ??= 'a property on Object.prototype';
  if (ms > LIMITS.cpuMs) problem ??= `${ms.toFixed(0)} ms of CPU time`;
  if (growth > LIMITS.growthBytes) problem ??= `memory grew by ${(growth / 1e6).toFixed(0)} MB`;
  return { problem, ms };
}
problemOf.properties = Object.keys(Object.getOwnPropertyDescriptors(Object.prototype)).length;

/**
 * The cases of one kind, reported to the parent one by one so that it knows which one killed this process.
 */
async function runShare({ kind, seed, first, untilMs, folder, replay }) {
  process.env.FUZZ_FOLDER = folder;
  const { seeds, read } = KINDS[kind];
  const given =
    replay === null
      ? await seeds()
      : Object.fromEntries(replay.map((path) => [basename(path), readFileSync(path)]));
  const names = Object.keys(given);
  const others = Object.values(given);
  const end = Date.now() + untilMs;
  let index = first;
  for (; replay === null ? Date.now() < end : index < names.length; index++) {
    const random = randomFrom(seed * 1_000_003 + index * 31 + kind.length);
    for (let i = 0; i < 4; i++) random();
    const name = replay === null ? pick(random, names) : names[index];
    const fresh = replay !== null || index < names.length;
    const bytes = fresh ? given[names[index] ?? name] : mutateFile(random, given[name], pick(random, others));
    const place = join(folder, 'case');
    rmSync(place, { recursive: true, force: true });
    mkdirSync(place, { recursive: true });
    const path = join(folder, fresh ? (names[index] ?? name) : name);
    writeFileSync(path, bytes);
    process.send({ at: index, path });
    const { problem, ms } = await problemOf(() => read(path, bytes, place));
    if (problem !== null) process.send({ found: { index, problem, path, bytes: bytes.toString('base64') } });
    process.send({ ran: index, ms, name });
  }
  await new Promise((resolve) => process.send({ done: index }, resolve));
  process.exit(0);
}

/** CPU time of a process so far in ms, at 100 ticks per second; 0 if it has ended. */
function cpuMsOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return 10 * (Number(fields[11]) + Number(fields[12]));
  } catch {
    return 0;
  }
}

/** Runs one process; resolves with how it ended. */
function share(settings, tell) {
  return new Promise((resolve) => {
    const child = fork(fileURLToPath(import.meta.url), [], {
      env: { ...process.env, FUZZ_SHARE: JSON.stringify(settings) },
      execArgv: [`--max-old-space-size=${LIMITS.heapMb}`],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let last = { at: settings.first, path: null };
    let done = false;
    let stderr = '';
    let late = false;
    child.stderr.on('data', (text) => (stderr = (stderr + text).slice(-2000)));
    const end = () => {
      late = true;
      child.kill('SIGKILL');
    };
    let cpuAtMessage = 0;
    // On a busy machine a case may wait long for its turn: it hangs only if it has used its CPU time without
    // ending.
    const watch = () =>
      setTimeout(() => {
        if (cpuMsOf(child.pid) - cpuAtMessage > LIMITS.cpuMs || Date.now() - messageAt > 10 * LIMITS.wallMs)
          end();
        else timer = watch();
      }, LIMITS.wallMs);
    let messageAt = Date.now();
    let timer = watch();
    child.on('message', (message) => {
      clearTimeout(timer);
      [messageAt, cpuAtMessage] = [Date.now(), message.at === undefined ? cpuAtMessage : cpuMsOf(child.pid)];
      timer = watch();
      if (message.at !== undefined) last = message;
      if (message.done !== undefined) done = true;
      tell(message);
    });
    child.on('exit', (code, signal) => {
      clearTimeout(timer);
      if (done) return resolve(null);
      const how = late
        ? `no answer for ${LIMITS.wallMs / 1000} s`
        : `the process died (${signal ?? code}): ${stderr}`;
      resolve({ index: last.at, problem: how, path: last.path });
    });
  });
}

/** All cases of a kind; a process that dies is replaced and continues after the case that killed it. */
async function fuzzKind(kind, { seed, seconds, keep, replay }) {
  const folder = mkdtempSync(join(tmpdir(), `acoer-fuzz-${kind}-`));
  const findings = [];
  const seen = new Set();
  const keepFinding = ({ index, problem, path, bytes }) => {
    const mark = problem
      .replace(/[0-9]+/g, '#')
      .split('\n')
      .slice(0, 3)
      .join('\n');
    const first = !seen.has(mark);
    seen.add(mark);
    const file = join(keep, kind, `${seed}-${index}-${path === null ? '' : basename(path)}`);
    if (first) {
      mkdirSync(join(keep, kind), { recursive: true });
      if (bytes !== undefined) writeFileSync(file, Buffer.from(bytes, 'base64'));
      else if (path !== null) writeFileSync(file, readFileSync(path));
    }
    findings.push({ kind, index, problem, file: first ? file : null });
  };
  let [cases, next, slowestMs] = [0, 0, 0];
  const tell = ({ ran, ms, found }) => {
    if (found !== undefined) keepFinding(found);
    if (ran === undefined) return;
    [cases, next, slowestMs] = [cases + 1, ran + 1, Math.max(slowestMs, ms)];
  };
  const end = Date.now() + seconds * 1000;
  for (let alive = true; alive;) {
    const untilMs = Math.max(0, end - Date.now());
    const death = await share({ kind, seed, first: next, untilMs, folder, replay }, tell);
    if (death !== null) {
      keepFinding(death);
      next = death.index + 1;
    }
    alive = death !== null && (replay === null ? Date.now() < end : next < replay.length);
  }
  rmSync(folder, { recursive: true, force: true });
  return { kind, cases, slowestMs, findings };
}

async function main() {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '60' },
      seed: { type: 'string', default: '1' },
      kind: { type: 'string', multiple: true, default: Object.keys(KINDS) },
      workers: { type: 'string', default: '1' },
      keep: { type: 'string', default: join(tmpdir(), 'acoer-fuzz-findings') },
      replay: { type: 'string' },
    },
  });
  const unknown = values.kind.filter((kind) => !Object.hasOwn(KINDS, kind));
  if (unknown.length > 0) {
    console.error(`unknown kind ${unknown.join(', ')}; choose from ${Object.keys(KINDS).join(', ')}`);
    process.exit(2);
  }
  const started = performance.now();
  const queue = [...values.kind];
  const workers = Number(values.workers);
  const seconds = (Number(values.seconds) * workers) / values.kind.length;
  const outcomes = [];
  const filesOf = (kind) => {
    const folder = join(values.replay, kind);
    return readdirSync(values.replay).includes(kind)
      ? readdirSync(folder)
          .sort()
          .map((name) => join(folder, name))
      : [];
  };
  await Promise.all(
    Array.from({ length: workers }, async () => {
      for (let kind; (kind = queue.shift()) !== undefined;) {
        const replay = values.replay === undefined ? null : filesOf(kind);
        if (replay?.length === 0) continue;
        const outcome = await fuzzKind(kind, {
          seed: Number(values.seed),
          seconds,
          keep: values.keep,
          replay,
        });
        outcomes.push(outcome);
        console.log(
          `${kind}: ${outcome.cases} cases, slowest ${outcome.slowestMs.toFixed(0)} ms, ${outcome.findings.length} findings`,
        );
      }
    }),
  );
  const findings = outcomes.flatMap((outcome) => outcome.findings);
  const cases = outcomes.reduce((sum, outcome) => sum + outcome.cases, 0);
  console.log(
    `${cases} cases in ${((performance.now() - started) / 1000).toFixed(0)} s, ${findings.length} findings`,
  );
  for (const { kind, index, problem, file } of findings.filter(({ file }) => file !== null).slice(0, 60)) {
    console.log(`\n${kind} case ${index} (${file})\n${problem.split('\n').slice(0, 7).join('\n')}`);
  }
  process.exitCode = findings.length > 0 ? 1 : 0;
}

if (process.env.FUZZ_SHARE !== undefined) await runShare(JSON.parse(process.env.FUZZ_SHARE));
else await main();
