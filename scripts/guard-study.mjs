/**
 * What the collapse monitor finds on the embedded model, and how early (docs/collapse.md):
 *
 *   node scripts/guard-study.mjs record FOLDER [--seeds 1-10] [--kinds slide,acoer,acc,still,rollback] [--jobs 2]
 *   node scripts/guard-study.mjs replay FOLDER [--monitor '{"warningSteps": 3}']
 *
 * `record` trains once per kind and seed, one thread each; what is there already is not made again. `replay` shows the
 * recorded metrics to the monitor under any settings: no training. Needs `npm run build`.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const require = createRequire(import.meta.url);

/** The same 1,000 held-out problems for every run, sampled at temperature 1. */
const EVALUATED = ['evalProblems=0', 'evalSampledProblems=1000', 'evalSteps=10'];
const FALL = 0.05;

const KINDS = {
  /** A static length reward at a constant rate: it slides, on every seed in its own way. */
  slide: { preset: 'slide', set: ['reward=grpo-lp', ...EVALUATED] },
  rollback: {
    preset: 'slide',
    set: ['reward=grpo-lp', ...EVALUATED, 'saveSteps=10', 'onCollapse=rollback'],
  },
  acoer: { preset: 'tiny', set: ['reward=acoer', ...EVALUATED] },
  acc: { preset: 'tiny', set: ['reward=acc', ...EVALUATED] },
  /** The same static reward at a rate where thinking shortens and nothing is lost in 200 steps. */
  still: { preset: 'tiny', set: ['reward=grpo-lp', 'learningRate=1.5e-4', ...EVALUATED] },
};

function seedsOf(text) {
  return text.split(',').flatMap((part) => {
    const [first, last = first] = part.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

function trainOne(folder, kind, seed) {
  const out = join(folder, `${kind}-${seed}`);
  if (existsSync(join(out, 'summary.json'))) return Promise.resolve(0);
  rmSync(out, { recursive: true, force: true });
  const { preset, set } = KINDS[kind];
  const words = ['train', '--preset', preset, '--seed', String(seed), '--threads', '1', '--out', out];
  for (const value of [...set, 'completionsSteps=0']) words.push('--set', value);
  const env = { ...process.env, OMP_WAIT_POLICY: 'passive' };
  const child = spawn(process.execPath, [join(root, 'dist/cli/main.js'), ...words], { env, stdio: 'ignore' });
  return new Promise((resolve, reject) => child.on('error', reject).on('exit', resolve));
}

async function record(folder, { seeds, kinds, jobs }) {
  mkdirSync(folder, { recursive: true });
  const queue = seedsOf(seeds).flatMap((seed) => kinds.split(',').map((kind) => ({ kind, seed })));
  const worker = async () => {
    for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
      const code = await trainOne(folder, job.kind, job.seed);
      console.log(`${job.kind} ${job.seed}: ${code === 0 ? 'done' : `exit ${code}`}`);
    }
  };
  await Promise.all(Array.from({ length: Number(jobs) }, worker));
}

/**
 * The highest sampled evaluation, the last one, and the first FALL lower: than the highest so far (the strict reading,
 * which takes a dip on the way up for a fall), and after the highest of the run.
 */
function courseOf(lines) {
  const seen = lines
    .filter((line) => line['eval/sampled_accuracy'] !== undefined)
    .map((line) => ({ step: line.step, accuracy: line['eval/sampled_accuracy'] }));
  if (seen.length === 0) return { peak: null, strictFall: null, fall: null, end: null };
  const best = (rows) => rows.reduce((a, b) => (b.accuracy > a.accuracy ? b : a));
  const top = best(seen);
  const strict = seen.find((row, i) => best(seen.slice(0, i + 1)).accuracy - row.accuracy >= FALL);
  const after = seen.find((row) => row.step > top.step && top.accuracy - row.accuracy >= FALL);
  const end = seen.at(-1).accuracy;
  return { peak: top.accuracy, strictFall: strict?.step ?? null, fall: after?.step ?? null, end };
}

function replayOne(path, given) {
  const { initialMonitorState, monitorSettings, observeHealth } = require(join(root, 'dist'));
  const { readMetrics, readRollbacks, RunDirectory } = require(join(root, 'dist/run'));
  const run = new RunDirectory(path);
  const config = run.readJson(run.config());
  const settings = monitorSettings({ preset: 'default', ...given });
  const lines = readMetrics(run.metrics());
  let state = initialMonitorState();
  const first = {};
  for (const line of lines) {
    const seen = observeHealth(state, line, settings, config.promptsPerStep * config.stepsPerGeneration);
    state = seen.state;
    if (seen.change !== null) first[seen.change.to] ??= seen.change;
  }
  return { ...courseOf(lines), first, steps: lines.length, rollbacks: readRollbacks(run) };
}

const percent = (share) => (share === null ? '-' : (100 * share).toFixed(1));
const cell = (value) => (value === null || value === undefined ? '-' : String(value));

function replay(folder, given) {
  const runs = readdirSync(folder)
    .map((name) => /^(\w+)-(\d+)$/.exec(name))
    .filter((match) => match !== null && existsSync(join(folder, match[0], 'metrics.jsonl')))
    .map(([name, kind, seed]) => ({ name, kind, seed: Number(seed) }))
    .sort((a, b) => a.kind.localeCompare(b.kind) || a.seed - b.seed);
  const head = [
    'run',
    'seed',
    'warning',
    'collapsed',
    'peak',
    'end',
    'fall so far',
    'lead',
    'fall',
    'lead',
    'rollbacks',
  ];
  console.log(`| ${head.join(' | ')} |`);
  console.log(`| ${head.map(() => '---').join(' | ')} |`);
  for (const { name, kind, seed } of runs) {
    const { first, peak, strictFall, fall, end, rollbacks, steps } = replayOne(join(folder, name), given);
    const alarm = (first.warning ?? first.collapsed)?.step ?? null;
    const lead = (step) => (step === null || alarm === null ? null : step - alarm);
    const from = rollbacks.map((rollback) => `${rollback.from} to ${rollback.to}`).join(', ');
    const accuracies = [percent(peak), percent(end)];
    const falls = [strictFall, lead(strictFall), fall, lead(fall)];
    const cells = [kind, seed, alarm, first.collapsed?.step, ...accuracies, ...falls, from];
    console.log(`| ${cells.map(cell).join(' | ')} |${steps < 200 ? ' (unfinished)' : ''}`);
  }
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    seeds: { type: 'string', default: '1-10' },
    kinds: { type: 'string', default: Object.keys(KINDS).join(',') },
    jobs: { type: 'string', default: '2' },
    monitor: { type: 'string', default: '{}' },
  },
});
const [command, folder] = positionals;
if (folder === undefined || !['record', 'replay'].includes(command)) {
  console.error('usage: node scripts/guard-study.mjs record|replay FOLDER [--seeds 1-10] [--monitor JSON]');
  process.exit(2);
}
if (command === 'record') await record(folder, values);
else replay(folder, JSON.parse(values.monitor));
