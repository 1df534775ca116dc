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
const EVALUATED = ['evalProblems=0', 'evalSampledProblems=1000'];
const FALL = 0.05;

const KINDS = {
  /** A static length reward at a constant rate: it slides, on every seed in its own way. */
  slide: { preset: 'slide', set: ['reward=grpo-lp', ...EVALUATED, 'evalSteps=10'] },
  rollback: {
    preset: 'slide',
    set: ['reward=grpo-lp', ...EVALUATED, 'evalSteps=10', 'saveSteps=10', 'onCollapse=rollback'],
  },
  acoer: { preset: 'tiny', set: ['reward=acoer', 'evalProblems=0', 'evalSampledProblems=0'] },
  acc: { preset: 'tiny', set: ['reward=acc', 'evalProblems=0', 'evalSampledProblems=0'] },
  /** The same static reward at a rate where thinking shortens and nothing is lost in 200 steps. */
  still: {
    preset: 'tiny',
    set: ['reward=grpo-lp', 'learningRate=1.5e-4', ...EVALUATED, 'evalSteps=100'],
  },
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

/** Peak of the sampled evaluation, the first evaluation FALL below the peak so far, and the last one. */
function courseOf(lines) {
  const course = { peak: null, fallStep: null, end: null };
  for (const line of lines) {
    const accuracy = line['eval/sampled_accuracy'];
    if (accuracy === undefined) continue;
    course.peak = Math.max(course.peak ?? 0, accuracy);
    if (course.peak - accuracy >= FALL) course.fallStep ??= line.step;
    course.end = accuracy;
  }
  return course;
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
  console.log('| run | seed | warning | collapsed | peak | 5 points lower at | lead | end | rollbacks |');
  console.log('| --- | ---- | ------- | --------- | ---- | ----------------- | ---- | --- | --------- |');
  for (const { name, kind, seed } of runs) {
    const { first, peak, fallStep, end, rollbacks, steps } = replayOne(join(folder, name), given);
    const alarm = (first.warning ?? first.collapsed)?.step ?? null;
    const lead = fallStep === null || alarm === null ? null : fallStep - alarm;
    const from = rollbacks.map((rollback) => `${rollback.from} to ${rollback.to}`).join(', ');
    const cells = [
      kind,
      seed,
      alarm,
      first.collapsed?.step,
      percent(peak),
      fallStep,
      lead,
      percent(end),
      from,
    ];
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
