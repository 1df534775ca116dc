/**
 * Results of `node train.js` over many seeds, to check what the README says about them:
 *
 *   node scripts/studies/first-run-study.mjs record FOLDER [--seeds 401-430] [--set path=value ...] [--jobs 2]
 *   node scripts/studies/first-run-study.mjs judge FOLDER
 *
 * `record` trains the preset `tiny` once per seed, with one thread each, and evaluates it every 25 steps,
 * which does not affect the training. Existing runs are kept. `judge` reads the recorded runs with the
 * current code's closing lines and the recorded monitor states. Settings are chosen on other seeds than they
 * are judged on. Needs `npm run build`.
 */
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { recordRuns, root, seedsOf } from '../lib/study.mjs';
import { scriptArguments } from '../lib/arguments.mjs';

const require = createRequire(import.meta.url);

/**
 * Targets for a single run. Points are out of 100; "own peak" is the highest sampled evaluation of the run.
 */
const TARGETS = [
  ['does not end "Shortened and held"', (run) => run.held],
  ['greedy more than 1 point below the base', (run) => run.greedy >= run.baseGreedy - 1],
  ['sampled less than 20 points above the base', (run) => run.sampled >= run.baseSampled + 20],
  ['sampled more than 3 points below its own peak', (run) => run.sampled >= run.peak - 3],
  ['sampled below 94%', (run) => run.sampled >= 94],
  ['thinking reduced by less than 65%', (run) => run.thinking <= 0.35 * run.baseThinking],
  ['a collapse is printed', (run) => !run.collapsed],
];
/** Target in percent for the mean of the sampled accuracies. */
const MEAN_SAMPLED = 97.5;

/** 0.978 becomes 97.8, without the rounding error of the product. */
const percentOf = (share) => Number((100 * share).toFixed(6));

/** As reported by the run itself; `monitor/state` 2 is collapsed. */
const collapsed = (lines) => lines.some((line) => line['monitor/state'] === 2);

function readRun(path) {
  const { readMetrics, RunDirectory } = require(join(root, 'dist/run'));
  const { closingLines } = require(join(root, 'dist/cli/view/closing'));
  const run = new RunDirectory(path);
  const config = run.readJson(run.config());
  const summary = run.readJson(run.summary());
  const { base, trained } = summary;
  const lines = readMetrics(run.metrics());
  const evaluated = lines.flatMap((line) => line['eval/sampled_accuracy'] ?? []);
  return {
    seed: config.seed,
    held: closingLines(summary, lines)[0].startsWith('Shortened and held'),
    collapsed: collapsed(lines),
    greedy: percentOf(trained.greedy.accuracy),
    baseGreedy: percentOf(base.greedy.accuracy),
    sampled: percentOf(trained.sampled.accuracy),
    baseSampled: percentOf(base.sampled.accuracy),
    peak: percentOf(Math.max(...evaluated, trained.sampled.accuracy)),
    thinking: trained.sampled.thinkingTokens,
    baseThinking: base.sampled.thinkingTokens,
  };
}

/** Minimum, 5%, median, 95% and maximum, with linear interpolation. */
function quantiles(values, digits) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => {
    const place = share * (sorted.length - 1);
    const below = sorted[Math.floor(place)];
    return below + (place - Math.floor(place)) * (sorted[Math.ceil(place)] - below);
  };
  return [0, 0.05, 0.5, 0.95, 1].map((share) => at(share).toFixed(digits)).join(' / ');
}

function judge(folder) {
  const runs = readdirSync(folder)
    .filter((name) => existsSync(join(folder, name, 'summary.json')))
    .map((name) => readRun(join(folder, name)))
    .sort((a, b) => a.seed - b.seed);
  if (runs.length === 0) {
    console.error(`${folder} has no finished run; record some first.`);
    process.exit(2);
  }
  const of = (name) => runs.map((run) => run[name]);
  const mean = (name) => of(name).reduce((a, b) => a + b, 0) / runs.length;
  for (const run of runs) {
    const misses = TARGETS.filter(([, met]) => !met(run)).map(([words]) => words);
    const own = `greedy ${run.greedy.toFixed(1)}, sampled ${run.baseSampled.toFixed(1)} -> ${run.sampled.toFixed(1)} (peak ${run.peak.toFixed(1)})`;
    const thinking = `thinking ${run.baseThinking.toFixed(1)} -> ${run.thinking.toFixed(1)}`;
    console.log(`${run.seed}: ${own}, ${thinking}${misses.map((words) => `; MISS: ${words}`).join('')}`);
  }
  const met = runs.filter((run) => TARGETS.every(([, of]) => of(run))).length;
  const parts = [
    `${runs.length} runs (min / 5% / median / 95% / max): sampled accuracy ${quantiles(of('sampled'), 1)} (mean ${mean('sampled').toFixed(2)}, target ${MEAN_SAMPLED})`,
    `thinking ${quantiles(of('thinking'), 1)} tokens (mean ${mean('thinking').toFixed(1)}, base ${mean('baseThinking').toFixed(1)})`,
    `greedy ${quantiles(of('greedy'), 1)}`,
    `below its own peak ${quantiles(
      runs.map((run) => run.peak - run.sampled),
      1,
    )}`,
    `"Shortened and held" ${runs.filter((run) => run.held).length}`,
    `collapses printed ${runs.filter((run) => run.collapsed).length}`,
    `all targets met in ${met}`,
  ];
  console.log(parts.join('; '));
}

const { positionals, values } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    seeds: { type: 'string', default: '401-430' },
    set: { type: 'string', multiple: true, default: [] },
    jobs: { type: 'string', default: '2' },
  },
});
const [command, folder] = positionals;
if (folder === undefined || !['record', 'judge'].includes(command)) {
  console.error(
    'usage: node scripts/studies/first-run-study.mjs record|judge FOLDER [--seeds 401-430] [--set path=value]',
  );
  process.exit(2);
}
if (command === 'judge') judge(folder);
else {
  const set = [...values.set, 'evalSteps=25'];
  const runs = seedsOf(values.seeds).map((seed) => ({ kind: 'tiny', preset: 'tiny', seed, set }));
  await recordRuns(folder, runs, Number(values.jobs));
}
