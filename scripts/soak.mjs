/**
 * Trains the preset `tiny` for many steps under a small heap and a memory limit, and says whether the
 * process grows:
 *
 *   node scripts/soak.mjs FOLDER [--steps 10000] [--heap 60] [--memory BYTES] [--seconds N] [--report]
 *
 * FOLDER/run is the run and FOLDER/samples.jsonl one line a look: resident memory, file descriptors and
 * threads of the process. Called again, it resumes; `--seconds` ends a sitting early. Growth is the slope of
 * memory over steps from step 2,000 of a sitting on. Memory does not change independently from one look to
 * the next, so the slope and its 95% interval come from the means of 20 equal stretches of steps.
 * `--heap` is V8's limit for old objects in MB, `--memory` the setting `memoryLimitBytes`.
 */
import { spawn } from 'node:child_process';
import {
  appendFileSync,
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { root } from './lib/study.mjs';
import { growthLines, look } from './lib/growth.mjs';
import { scriptArguments } from './lib/arguments.mjs';

const LOOK_MS = 500;
const SETTLED_STEPS = 2_000;

const { values, positionals } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    steps: { type: 'string', default: '10000' },
    heap: { type: 'string', default: '60' },
    memory: { type: 'string', default: String(256 * 2 ** 20) },
    seconds: { type: 'string' },
    report: { type: 'boolean' },
  },
});
const [folder] = positionals;
if (folder === undefined) {
  console.error(
    'usage: node scripts/soak.mjs FOLDER [--steps N] [--heap MB] [--memory BYTES] [--seconds N] [--report]',
  );
  process.exit(2);
}
const run = join(folder, 'run');
const samplesPath = join(folder, 'samples.jsonl');

const readSamples = () =>
  existsSync(samplesPath)
    ? readFileSync(samplesPath, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line))
    : [];

/** Bytes and whole lines that the file has beyond `start`. */
function linesFrom(path, start) {
  const handle = openSync(path, 'r');
  try {
    const added = Buffer.alloc(Math.max(0, fstatSync(handle).size - start));
    const bytes = readSync(handle, added, 0, added.length, start);
    return { bytes, lines: added.subarray(0, bytes).filter((byte) => byte === 10).length };
  } finally {
    closeSync(handle);
  }
}

async function sit() {
  mkdirSync(folder, { recursive: true });
  const resumes = existsSync(run);
  const sitting = 1 + Math.max(0, ...readSamples().map((sample) => sample.sitting));
  const set = [`maxSteps=${values.steps}`, 'saveSteps=100', `memoryLimitBytes=${values.memory}`];
  const words = resumes
    ? ['train', '--resume', run]
    : ['train', '--preset', 'tiny', '--threads', '1', '--out', run, ...set.flatMap((s) => ['--set', s])];
  const child = spawn(
    process.execPath,
    [`--max-old-space-size=${values.heap}`, join(root, 'dist/cli/main.js'), ...words],
    { env: { ...process.env, OMP_WAIT_POLICY: 'passive' }, stdio: ['ignore', 'ignore', 'inherit'] },
  );
  let ended = false;
  const exit = new Promise((resolve, reject) =>
    child.on('error', reject).on('exit', (code) => {
      ended = true;
      resolve(code);
    }),
  );
  const timer = values.seconds && setTimeout(() => child.kill('SIGTERM'), Number(values.seconds) * 1000);
  const metrics = join(run, 'metrics.jsonl');
  let [seenBytes, step] = [0, 0];
  while (!ended) {
    await sleep(LOOK_MS);
    const added = existsSync(metrics) ? linesFrom(metrics, seenBytes) : null;
    if (ended || added === null || added.bytes === 0) continue;
    seenBytes += added.bytes;
    step += added.lines;
    // The process may end between the look at the file and the look at the process.
    if (existsSync(`/proc/${child.pid}/fd`)) {
      appendFileSync(samplesPath, `${JSON.stringify({ sitting, step, ...look(child.pid) })}\n`);
    }
  }
  clearTimeout(timer);
  return exit;
}

function report() {
  const all = readSamples();
  for (const sitting of new Set(all.map((sample) => sample.sitting))) {
    const samples = all.filter((sample) => sample.sitting === sitting);
    const settled = samples.filter(({ step }) => step - samples[0].step >= SETTLED_STEPS);
    console.log(`sitting ${sitting}: steps ${samples[0].step} to ${samples.at(-1).step}`);
    console.log(
      growthLines(
        settled.map(({ step, ...seen }) => ({ ...seen, done: step })),
        'step',
      )
        .map((line) => `  ${line}`)
        .join('\n'),
    );
  }
}

if (!values.report) process.exitCode = await sit();
report();
