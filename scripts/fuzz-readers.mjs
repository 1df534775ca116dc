/**
 * Mutates whatever acoer reads from others: each input must give a value or an error with one of our codes.
 *
 *   node scripts/fuzz-readers.mjs [TARGET]... [--kind NAME]... [--cpu-seconds 60] [--corpus FOLDER]
 *                                 [--workers 1] [--seed 1] [--keep FOLDER] [--unguided] [--smallest]
 *                                 [--replay FOLDER]
 *
 *   TARGET         config, hub, data, tokenizer, checkpoints, models or verifier (default: all)
 *   --kind         one kind of input of a target
 *   --cpu-seconds  processor time for each target, divided evenly among its kinds, all sittings together: the
 *                  same command goes on where the last one stopped
 *   --corpus       where inputs that reach new blocks of code, findings and the record of the time are kept
 *                  (default: acoer-fuzz in the user's cache)
 *   --keep         where the inputs of findings are written (default: findings in the corpus)
 *   --unguided     keep nothing but findings; case n is a function of seed, kind and n. The time is that of
 *                  this sitting
 *   --smallest     no mutations: put the fewest and smallest inputs that reach the same blocks, and the record,
 *                  into test/fixtures/fuzz-corpus
 *   --replay       no mutations: read every input in FOLDER/<kind>/ once; folders with other names are skipped
 *
 * Findings: an error without one of our codes, an input that hangs or takes over 3 s of processor time (a
 * verdict: 1 s; Parquet: 12 s), memory that grows by more than 300 MB, a process that dies, a property added to a built-in
 * prototype, anything printed. Prints a line per kind; exits with 1 if there are findings. Needs the compiled
 * package and addon (`npm run build`).
 */
import { fork } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { scriptArguments } from './lib/arguments.mjs';

const require = createRequire(import.meta.url);
const corpora = require('./lib/fuzz-corpus.cjs');
const { KINDS, TARGETS } = require('./lib/fuzz-kinds.cjs');
const { LIMITS, runShare } = require('./lib/fuzz-share.cjs');

const HEAP_MB = 768;
const WATCH_MS = 2_000;
/** On a busy machine an input may wait long for its turn. */
const SILENCE_MS = 600_000;
/** The code is instrumented and compiled while the first inputs are read. */
const LOADING_CPU_MS = 120_000;
const COVERAGE = fileURLToPath(new URL('lib/fuzz-coverage.cjs', import.meta.url));

/** Processor time of a process so far in ms, at 100 ticks per second; 0 if it has ended. */
function cpuMsOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return 10 * (Number(fields[11]) + Number(fields[12]));
  } catch {
    return 0;
  }
}

/** Runs one process; resolves with how it died, or null. */
function runProcess(share, tell) {
  return new Promise((resolve) => {
    const guided = share.corpus === null ? [] : ['--require', COVERAGE];
    const child = fork(fileURLToPath(import.meta.url), [], {
      env: {
        ...process.env,
        FUZZ_SHARE: JSON.stringify(share),
        ...(share.corpus !== null && { FUZZ_CODE: join(share.corpus, 'code') }),
      },
      execArgv: [...guided, `--max-old-space-size=${HEAP_MB}`],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let [at, path, loaded, done, hung, stderr] = [share.first, null, false, false, false, ''];
    let [heardAt, cpuThen] = [Date.now(), 0];
    child.stderr.on('data', (text) => (stderr = (stderr + text).slice(-2000)));
    const timer = setInterval(() => {
      const allowed = loaded || share.replay !== null ? LIMITS.parquetCpuMs + 2_000 : LOADING_CPU_MS;
      hung = cpuMsOf(child.pid) - cpuThen > allowed || Date.now() - heardAt > SILENCE_MS;
      if (hung) child.kill('SIGKILL');
    }, WATCH_MS);
    child.on('message', (message) => {
      [heardAt, cpuThen] = [Date.now(), cpuMsOf(child.pid)];
      at = message.at ?? at;
      path = message.path ?? path;
      loaded ||= message.loaded === true;
      done ||= message.done === true;
      tell(message);
    });
    child.on('exit', (code, signal) => {
      clearInterval(timer);
      if (done) return resolve(null);
      const how = hung ? 'it hung' : `the process died (${signal ?? code}): ${stderr}`;
      const bytes = path === null ? Buffer.alloc(0) : readFileSync(path);
      resolve({ index: at, problem: how, name: basename(path ?? 'none'), bytes, loaded });
    });
  });
}

/** Problems of one cause have the same text here: the places in the code, or the words without values. */
function causeOf(problem) {
  const places = problem.split('\n').filter((line) => /^\s+at /.test(line));
  if (places.length > 0) return places.slice(0, 3).join('\n');
  return problem.replace(/".*"|[0-9]+/gs, '#').slice(0, 100);
}

/** The findings of one kind, each cause once. */
class Findings {
  constructor(kind, folder) {
    Object.assign(this, { kind, folder, all: [], causes: new Set() });
  }

  add({ index, problem, name, bytes }) {
    const cause = causeOf(problem);
    const isNew = !this.causes.has(cause);
    this.causes.add(cause);
    const file = join(this.folder, this.kind, corpora.keptName({ name, bytes }));
    if (isNew) corpora.keep(join(this.folder, this.kind), { name, bytes });
    this.all.push({ kind: this.kind, index, problem, file: isNew ? file : null });
  }
}

const NOTHING = { cpuSeconds: 0, cases: 0, blocksAtFirst: 0, blocks: 0, blocksKnown: 0, findings: 0 };

/** All cases of one kind in this sitting. */
class Sitting {
  constructor(kind, settings) {
    this.kind = kind;
    this.settings = settings;
    this.findings = new Findings(kind, settings.keep);
    this.before = {
      ...NOTHING,
      ...(settings.corpus === null ? {} : corpora.readRecord(settings.corpus)[kind]),
    };
    this.spent = { ...this.before };
    /** What earlier processes of this sitting spent, and what the present one has. */
    this.ended = { cpuSeconds: 0, cases: 0 };
    this.now = { cpuSeconds: 0, cases: 0 };
    this.slowestMs = 0;
    this.kept = [];
  }

  hear(message) {
    const { before, ended, findings, spent } = this;
    if (message.found !== undefined)
      findings.add({ ...message.found, bytes: Buffer.from(message.found.bytes, 'base64') });
    if (message.blocksAtFirst !== undefined) spent.blocksAtFirst = message.blocksAtFirst;
    if (message.keep !== undefined) this.kept.push(message.keep);
    if (message.cases === undefined) return;
    this.now = { cpuSeconds: message.cpuSeconds, cases: message.cases };
    this.slowestMs = Math.max(this.slowestMs, message.slowestMs);
    spent.cpuSeconds = before.cpuSeconds + ended.cpuSeconds + message.cpuSeconds;
    spent.cases = before.cases + ended.cases + message.cases;
    spent.findings = before.findings + findings.causes.size;
    spent.blocks = message.reached?.blocks ?? 0;
    spent.blocksKnown = message.reached?.known ?? 0;
    const { corpus, smallest } = this.settings;
    if (corpus !== null && !smallest) corpora.writeSpent(corpus, this.kind, spent);
  }

  /** A process that dies is replaced, and the next one goes on after the case that killed it. */
  async run() {
    const { seed, cpuSeconds, corpus, replay, smallest } = this.settings;
    const folder = mkdtempSync(join(tmpdir(), `acoer-fuzz-${this.kind}-`));
    let first = this.before.cases;
    for (let alive = true; alive;) {
      const left = cpuSeconds - this.before.cpuSeconds - this.ended.cpuSeconds;
      if (replay === null && !smallest && left <= 0) break;
      const share = { kind: this.kind, seed, first, cpuSeconds: left, folder, corpus, replay, smallest };
      const death = await runProcess(share, (message) => this.hear(message));
      this.ended.cpuSeconds += this.now.cpuSeconds;
      this.ended.cases += this.now.cases;
      this.now = { cpuSeconds: 0, cases: 0 };
      if (death !== null) {
        this.findings.add(death);
        this.ended.cases++;
        first = death.index + 1;
      }
      alive = death !== null && (death.loaded || replay !== null) && !smallest;
    }
    rmSync(folder, { recursive: true, force: true });
  }

  /** One line for the user. */
  outcome() {
    const { kind, ended, findings, settings, slowestMs, spent } = this;
    const words = `${kind}: ${ended.cases} cases, slowest ${slowestMs.toFixed(0)} ms, ${findings.all.length} findings`;
    if (settings.corpus === null) return words;
    const { cases, cpuSeconds, blocks, blocksKnown, blocksAtFirst } = spent;
    return `${words}; in all ${cases} cases, ${cpuSeconds.toFixed(0)} s of processor time, ${blocks} of ${blocksKnown} blocks (${blocksAtFirst} at first)`;
  }
}

/** Replaces the inputs of a kind that the repository keeps. */
function commit({ kind, kept, settings: { corpus }, before, spent }) {
  const inputs = corpora.knownInputs(kind, corpus).filter(({ name }) => kept.includes(name));
  const folder = join(corpora.COMMITTED, kind);
  rmSync(folder, { recursive: true, force: true });
  for (const input of inputs) corpora.keep(folder, input);
  const { cpuSeconds, cases, findings } = before;
  corpora.writeSpent(corpora.COMMITTED, kind, { ...spent, cpuSeconds, cases, findings });
}

function readOptions() {
  const { values, positionals } = scriptArguments(import.meta.url, {
    allowPositionals: true,
    options: {
      'cpu-seconds': { type: 'string', default: '60' },
      seed: { type: 'string', default: '1' },
      kind: { type: 'string', multiple: true, default: [] },
      workers: { type: 'string', default: '1' },
      corpus: { type: 'string', default: corpora.HOME },
      keep: { type: 'string' },
      unguided: { type: 'boolean', default: false },
      smallest: { type: 'boolean', default: false },
      replay: { type: 'string' },
    },
  });
  const unknown = [
    ...positionals.filter((target) => !Object.hasOwn(TARGETS, target)),
    ...values.kind.filter((kind) => !Object.hasOwn(KINDS, kind)),
  ];
  if (unknown.length > 0) {
    console.error(
      `unknown: ${unknown.join(', ')}; targets are ${Object.keys(TARGETS).join(', ')}, kinds ${Object.keys(KINDS).join(', ')}`,
    );
    process.exit(2);
  }
  const targets = positionals.length > 0 || values.kind.length > 0 ? positionals : Object.keys(TARGETS);
  const asked = new Set([...targets.flatMap((target) => TARGETS[target]), ...values.kind]);
  const queue = Object.values(TARGETS).flatMap((kinds) =>
    kinds
      .filter((kind) => asked.has(kind))
      .map((kind) => ({ kind, cpuSeconds: Number(values['cpu-seconds']) / kinds.length })),
  );
  return { ...values, queue };
}

async function main() {
  const options = readOptions();
  const { queue, replay = null, smallest } = options;
  const corpus = options.unguided || replay !== null ? null : options.corpus;
  const keep = options.keep ?? join(options.corpus, 'findings');
  const started = performance.now();
  const sittings = [];
  const work = async () => {
    for (let item; (item = queue.shift()) !== undefined;) {
      const { kind, cpuSeconds } = item;
      if (replay !== null && !readdirSync(replay).includes(kind)) continue;
      const seed = Number(options.seed);
      const sitting = new Sitting(kind, { seed, cpuSeconds, corpus, keep, replay, smallest });
      await sitting.run();
      sittings.push(sitting);
      if (smallest) commit(sitting);
      console.log(sitting.outcome());
    }
  };
  await Promise.all(Array.from({ length: Number(options.workers) }, work));
  const findings = sittings.flatMap((sitting) => sitting.findings.all);
  const cases = sittings.reduce((sum, { ended }) => sum + ended.cases, 0);
  for (const { kind, index, problem, file } of findings.filter(({ file }) => file !== null).slice(0, 60)) {
    console.log(`\n${kind} case ${index} (${file})\n${problem.split('\n').slice(0, 7).join('\n')}\n`);
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  console.log(`${cases} cases in ${seconds} s, ${findings.length} findings`);
  process.exitCode = findings.length > 0 ? 1 : 0;
}

if (process.env.FUZZ_SHARE !== undefined) await runShare(JSON.parse(process.env.FUZZ_SHARE));
else await main();
