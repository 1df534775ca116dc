/**
 * Says where a command blocks its event loop: for each stretch in which the main thread computed for more than
 * LIMIT_MS (default 200) without a turn of the loop, its length and the functions that took it.
 *
 *   node --require ./scripts/loop-delay.cjs dist/cli/main.js train ...
 *
 * Processor time of the main thread is what counts, so other load on the machine does not matter (Linux).
 */
const { readFileSync } = require('node:fs');
const { Session } = require('node:inspector');
const { isMainThread } = require('node:worker_threads');

const LIMIT_MS = Number(process.env.LIMIT_MS ?? 200);
const SHOWN = 6;

const cpuMs = () =>
  Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
/** The profiler's clock, in microseconds. */
const nowUs = () => Number(process.hrtime.bigint() / 1000n);

/** @returns the share of samples in [from, to] that each function was on the stack for */
function functionsIn({ nodes, samples, timeDeltas, startTime }, from, to) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const parent = new Map(nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node.id])));
  const counts = new Map();
  let at = startTime;
  let total = 0;
  samples.forEach((sample, i) => {
    at += timeDeltas[i];
    if (at < from || at > to) return;
    total++;
    const seen = new Set();
    for (let id = sample; id !== undefined; id = parent.get(id)) {
      const { functionName, url, lineNumber } = byId.get(id).callFrame;
      const file = url.replace(/^.*\/(?=[^/]+\/[^/]+$)/, '');
      if (functionName !== '(root)') seen.add(`${functionName || '(anonymous)'} ${file}:${lineNumber + 1}`);
    }
    for (const name of seen) counts.set(name, (counts.get(name) ?? 0) + 1);
  });
  return [...counts].map(([name, count]) => [name, count / total]).sort(([, a], [, b]) => b - a);
}

function watch() {
  const session = new Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.setSamplingInterval', { interval: 2_000 });
  session.post('Profiler.start');
  const blocks = [];
  let [cpu, at] = [cpuMs(), nowUs()];
  setInterval(() => {
    const [nextCpu, nextAt] = [cpuMs(), nowUs()];
    if (nextCpu - cpu > LIMIT_MS) blocks.push({ ms: nextCpu - cpu, from: at, to: nextAt });
    [cpu, at] = [nextCpu, nextAt];
  }, 5).unref();
  process.on('exit', () => {
    session.post('Profiler.stop', (error, result) => {
      if (error) throw error;
      console.error(`loop-delay: ${blocks.length} stretches over ${LIMIT_MS} ms`);
      for (const { ms, from, to } of blocks) {
        console.error(`  ${ms.toFixed(0)} ms`);
        for (const [name, share] of functionsIn(result.profile, from, to).slice(0, SHOWN * 3)) {
          if (share >= 0.15) console.error(`    ${(100 * share).toFixed(0).padStart(3)}%  ${name}`);
        }
      }
    });
  });
}

if (isMainThread) watch();
