/**
 * What the collapse monitor finds on the embedded model, and how early (docs/collapse.md):
 *
 *   node scripts/studies/guard-study.mjs record FOLDER [--seeds 1-10] [--jobs 2]
 *                                       [--kinds slide,acoer,acc,still,rollback]
 *   node scripts/studies/guard-study.mjs replay FOLDER [--monitor '{"warningSteps": 3}']
 *
 * `record` trains once per kind and seed, with one thread each; existing runs are kept. `replay` runs the
 * monitor over the recorded metrics under any settings, without training. Needs `npm run build`.
 */
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { recordRuns, root, seedsOf } from '../lib/study.mjs';
import { scriptArguments } from '../lib/arguments.mjs';

const require = createRequire(import.meta.url);

/** The same held-out problems for every run of a kind, sampled at temperature 1. */
const OFTEN = ['evalProblems=0', 'evalSampledProblems=1000', 'evalSteps=10'];
const SELDOM = ['evalProblems=0', 'evalSampledProblems=500', 'evalSteps=20'];
const FALL = 0.05;

const KINDS = {
  /** A static length reward at a constant rate, which slides differently on every seed. */
  slide: { preset: 'slide', set: ['reward=grpo-lp', ...OFTEN] },
  rollback: {
    preset: 'slide',
    set: ['reward=grpo-lp', ...OFTEN, 'saveSteps=10', 'onCollapse=rollback'],
  },
  acoer: { preset: 'tiny', set: ['reward=acoer', ...SELDOM] },
  acc: { preset: 'tiny', set: ['reward=acc', ...SELDOM] },
  /** The same static reward at a rate where thinking shortens without loss in 200 steps. */
  still: {
    preset: 'tiny',
    set: ['reward=grpo-lp', 'advantageEpsilon=1e-4', 'learningRate=1.5e-4', ...SELDOM],
  },
};

async function record(folder, { seeds, kinds, jobs }) {
  const runs = seedsOf(seeds).flatMap((seed) =>
    kinds.split(',').map((kind) => ({ kind, seed, ...KINDS[kind] })),
  );
  await recordRuns(folder, runs, Number(jobs));
}

/**
 * The highest sampled evaluation, the last one, and the first FALL lower: lower than the highest so far (the
 * strict reading, which counts a dip on the way up as a fall), and lower after the highest of the run.
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

/** The first change to each state. */
function firstChanges(lines, settings, context) {
  const { initialMonitorState, observe } = require(join(root, 'dist/monitor'));
  let state = initialMonitorState();
  const first = {};
  for (const line of lines) {
    const seen = observe(state, line, settings, context);
    state = seen.state;
    if (seen.change !== null) first[seen.change.to] ??= seen.change.step;
  }
  return first;
}

/** The monitor over a recorded run twice: with collapses decided by batches and by evaluations. */
function replayOne(path, given) {
  const { monitorSettings } = require(join(root, 'dist/monitor'));
  const { monitorContext } = require(join(root, 'dist/train'));
  const { readMetrics, readRollbacks, RunDirectory } = require(join(root, 'dist/run'));
  const run = new RunDirectory(path);
  const config = run.readJson(run.config());
  const settings = monitorSettings({ preset: 'default', ...given });
  const lines = readMetrics(run.metrics());
  const { base } = run.readJson(run.summary());
  const context = monitorContext(config, base);
  const batches = firstChanges(lines, settings, { ...context, evaluations: null });
  const evaluations = firstChanges(lines, settings, context);
  return { ...courseOf(lines), batches, evaluations, rollbacks: readRollbacks(run) };
}

const percent = (share) => (share === null ? '-' : (100 * share).toFixed(1));
const cell = (value) => (value === null || value === undefined ? '-' : String(value));

function replay(folder, given) {
  const runs = readdirSync(folder)
    .map((name) => /^(\w+)-(\d+)$/.exec(name))
    .filter((match) => match !== null && existsSync(join(folder, match[0], 'summary.json')))
    .map(([name, kind, seed]) => ({ name, kind, seed: Number(seed) }))
    .sort((a, b) => a.kind.localeCompare(b.kind) || a.seed - b.seed);
  const head = [
    'run',
    'seed',
    'warning',
    'collapsed by batches',
    'by evaluations',
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
    const { batches, evaluations, peak, strictFall, fall, end, rollbacks } = replayOne(
      join(folder, name),
      given,
    );
    const alarm = batches.warning ?? batches.collapsed ?? null;
    const lead = (step) => (step === null || alarm === null ? null : step - alarm);
    const from = rollbacks.map((rollback) => `${rollback.from} to ${rollback.to}`).join(', ');
    const states = [alarm, batches.collapsed, evaluations.collapsed];
    const falls = [strictFall, lead(strictFall), fall, lead(fall)];
    const cells = [kind, seed, ...states, percent(peak), percent(end), ...falls, from];
    console.log(`| ${cells.map(cell).join(' | ')} |`);
  }
}

const { positionals, values } = scriptArguments(import.meta.url, {
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
  console.error(
    'usage: node scripts/studies/guard-study.mjs record|replay FOLDER [--seeds 1-10] [--monitor JSON]',
  );
  process.exit(2);
}
if (command === 'record') await record(folder, values);
else replay(folder, JSON.parse(values.monitor));
