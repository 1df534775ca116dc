/**
 * Random and mutated inputs for the verifier: it must not throw or hang, and must repeat its verdict.
 *
 *   node scripts/fuzz-verify.mjs [--cases 1000000] [--from 0] [--workers 2]
 *
 * Prints statuses and the slowest cases. Exits with 1 if a case threw, changed its verdict, took longer than
 * --limit-ms of CPU time, or was cut off. Case n is the same everywhere. Needs `npm run build:ts`.
 */
import { fork } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { availableParallelism } from 'node:os';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';

const require = createRequire(import.meta.url);
const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: '1000000' },
    from: { type: 'string', default: '0' },
    workers: { type: 'string', default: String(availableParallelism()) },
    'limit-ms': { type: 'string', default: '250' },
  },
});
const STATUSES = new Set(['correct', 'incorrect', 'unparseable', 'timeout', 'gold-unparseable']);

/** Runs the cases first, first + stride, ... in this process. */
function runShare({ first, stride, end, limitMs }) {
  const { verifyAnswer } = require('../dist/verify/index.js');
  const { fuzzCase } = require('./lib/fuzz-answers.cjs');
  const statuses = {};
  const failures = [];
  let slowest = { ms: 0, index: -1 };
  for (let index = first; index < end; index += stride) {
    if (index % 64 === first % 64) process.send({ at: index });
    const { gold, completion, options } = fuzzCase(index);
    try {
      const before = process.cpuUsage();
      const verdict = verifyAnswer(gold, completion, options);
      const { user, system } = process.cpuUsage(before);
      const ms = (user + system) / 1000;
      statuses[verdict.status] = (statuses[verdict.status] ?? 0) + 1;
      if (!STATUSES.has(verdict.status) || verdict.correct !== (verdict.status === 'correct'))
        failures.push({ index, what: 'status' });
      if (ms > slowest.ms) slowest = { ms, index };
      if (ms > limitMs) failures.push({ index, what: `${ms.toFixed(0)} ms` });
      if (
        index % 16 === 0 &&
        JSON.stringify(verifyAnswer(gold, completion, options)) !== JSON.stringify(verdict)
      ) {
        failures.push({ index, what: 'a different verdict the second time' });
      }
    } catch (error) {
      failures.push({ index, what: String(error?.stack ?? error) });
    }
  }
  process.send({ done: { statuses, failures, slowest } });
}

/** The outcome of a share of the cases; a process that is silent for a minute counts as hung. */
function share(settings) {
  return new Promise((resolve) => {
    const child = fork(fileURLToPath(import.meta.url), [], {
      env: { ...process.env, FUZZ_SHARE: JSON.stringify(settings) },
    });
    let at = settings.first;
    let outcome = null;
    const watch = () => setTimeout(() => child.kill('SIGKILL'), 60_000);
    let timer = watch();
    child.on('message', (message) => {
      clearTimeout(timer);
      timer = watch();
      if (message.done !== undefined) outcome = message.done;
      else at = message.at;
    });
    child.on('exit', () => {
      clearTimeout(timer);
      const cut = {
        statuses: {},
        failures: [{ index: at, what: 'the process died or hung at or after this case' }],
        slowest: { ms: 0, index: at },
      };
      resolve(outcome ?? cut);
    });
  });
}

if (process.env.FUZZ_SHARE !== undefined) {
  runShare(JSON.parse(process.env.FUZZ_SHARE));
} else {
  const [cases, from, stride, limitMs] = [values.cases, values.from, values.workers, values['limit-ms']].map(
    Number,
  );
  const started = performance.now();
  const shares = Array.from({ length: stride }, (_, i) =>
    share({ first: from + i, stride, end: from + cases, limitMs }),
  );
  const outcomes = await Promise.all(shares);
  const statuses = {};
  for (const outcome of outcomes) {
    for (const [name, count] of Object.entries(outcome.statuses))
      statuses[name] = (statuses[name] ?? 0) + count;
  }
  const failures = outcomes.flatMap((outcome) => outcome.failures);
  const slowest = outcomes.map((outcome) => outcome.slowest).sort((a, b) => b.ms - a.ms)[0];
  const seconds = (performance.now() - started) / 1000;
  console.log(`${cases} cases in ${seconds.toFixed(0)} s, ${failures.length} failures`);
  console.log(`statuses ${JSON.stringify(statuses)}`);
  console.log(`slowest ${slowest.ms.toFixed(1)} ms of CPU time (case ${slowest.index})`);
  for (const failure of failures.slice(0, 20)) console.log(JSON.stringify(failure));
  process.exitCode = failures.length > 0 ? 1 : 0;
}
