/**
 * How often the collapse monitor fires on runs whose accuracy never changes, and how soon it finds drops
 * (docs/collapse.md):
 *
 *   node scripts/studies/guard-simulation.mjs stationary [--steps 200,1200,5000] [--thinking .5,.3,.2] [--runs 300]
 *   node scripts/studies/guard-simulation.mjs falls [--after 600] [--ramps 0,100,200] [--points .1,.2]
 *                                           [--kinds spread,factor,lost]
 *   node scripts/studies/guard-simulation.mjs curve [--runs 100]
 *
 * All take --solve and --shape (indices, from 0), --seeds tune|judge (settings are chosen on the first and
 * reported on the second) and --monitor JSON. Nothing is trained: the runs are synthetic
 * (synthetic-runs.cjs). Needs `npm run build`.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { root } from '../lib/study.mjs';
import { scriptArguments } from '../lib/arguments.mjs';

const require = createRequire(import.meta.url);
const { FALLS, SHAPES, SOLVE_RATES, syntheticRun } = require('./synthetic-runs.cjs');
const { bareContext, initialMonitorState, monitorSettings, observe } = require(join(root, 'dist/monitor'));

/** First seed of the runs that settings were chosen on, and of those they are reported on. */
const FIRST_SEED = { tune: 1_000_000, judge: 17_000_000 };

const { positionals, values } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    steps: { type: 'string', default: '200,1200,5000' },
    thinking: { type: 'string', default: '.5,.3,.2' },
    after: { type: 'string', default: '600' },
    ramps: { type: 'string', default: '0,200' },
    points: { type: 'string', default: '.1,.2' },
    kinds: { type: 'string', default: Object.keys(FALLS).join(',') },
    solve: { type: 'string', default: '0,1,2,3' },
    shape: { type: 'string', default: '0,1,2,3' },
    runs: { type: 'string', default: '300' },
    seeds: { type: 'string', default: 'judge' },
    monitor: { type: 'string', default: '{}' },
  },
});
const numbers = (text) => text.split(',').map(Number);
const runs = Number(values.runs);
const settings = monitorSettings({ preset: 'default', ...JSON.parse(values.monitor) });
const percent = (share) => `${(100 * share).toFixed(1)}%`;

/**
 * The one-sided 95% upper bound of a proportion seen `found` times in `n` (Clopper and Pearson), by
 * bisection.
 */
function upperBound(found, n) {
  if (found === n) return 1;
  const atMost = (p) => {
    let [term, total] = [(1 - p) ** n, 0];
    for (let k = 0; k <= found; k++) {
      total += term;
      term *= ((n - k) / (k + 1)) * (p / (1 - p));
    }
    return total;
  };
  let [low, high] = [found / n, 1];
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (atMost(middle) > 0.05) low = middle;
    else high = middle;
  }
  return high;
}

/** The groups at which the monitor first warned and first reported a collapse; null: never. */
function firstChanges(options, given = settings, from = 0) {
  const context = bareContext(options.shape.prompts);
  const first = { warning: null, collapsed: null };
  let state = initialMonitorState();
  for (const line of syntheticRun(options)) {
    const seen = observe(state, line, given, context);
    state = seen.state;
    const groups = line.step * options.shape.prompts;
    if (seen.change !== null && groups > from) first[seen.change.to] ??= groups;
  }
  return first;
}

const shapeName = ({ prompts, completions }) => `${prompts} x ${completions}`;

/** Every distribution of solve rates with every batch shape. */
function* worlds() {
  const solves = Object.entries(SOLVE_RATES);
  for (const i of numbers(values.solve)) {
    for (const j of numbers(values.shape)) {
      const shape = SHAPES[j];
      const seed = (run) => FIRST_SEED[values.seeds] + 100_000 * (4 * i + j) + run;
      yield { name: `${solves[i][0]} | ${shapeName(shape)}`, solve: solves[i][1], shape, seed };
    }
  }
}

const row = (cells) => console.log(`| ${cells.join(' | ')} |`);

function head(cells) {
  row(cells);
  row(cells.map(() => '---'));
}

function stationary() {
  head(['solve rates', 'batch', 'steps', 'thinking', 'collapsed', 'at most', 'warned', 'at most']);
  for (const steps of numbers(values.steps)) {
    for (const share of numbers(values.thinking)) {
      for (const { name, solve, shape, seed } of worlds()) {
        const thinking = [share, (steps * shape.prompts * 2) / 3];
        let [collapsed, warned] = [0, 0];
        for (let run = 0; run < runs; run++) {
          const first = firstChanges({ seed: seed(run), solve, shape, steps, thinking });
          if (first.collapsed !== null) collapsed++;
          if (first.collapsed !== null || first.warning !== null) warned++;
        }
        const bound = (found) => percent(upperBound(found, runs));
        row([name, steps, percent(share), collapsed, bound(collapsed), warned, bound(warned)]);
      }
    }
  }
}

/** Number of groups within which a drop of `points` should be found. */
const WITHIN = (points) => (points >= 0.2 ? 150 : 400);

/**
 * A run whose thinking is short long before its accuracy drops, up to `more` groups after the end of the
 * drop.
 */
function fallingRun({ solve, shape, seed }, run, fall, more) {
  const steps = Math.ceil((fall.after + fall.ramp + more) / shape.prompts);
  return { seed: seed(run), solve, shape, steps, thinking: [0.25, fall.after / 2], fall };
}

/** The fraction found by the monitor, and by a detector that knows the time, the means and the noise. */
function falls() {
  head([
    'solve rates',
    'batch',
    'points',
    'after',
    'kind',
    'ramp',
    'within',
    'found',
    'median delay',
    'told',
  ]);
  for (const points of numbers(values.points)) {
    for (const kind of values.kinds.split(',')) {
      for (const ramp of numbers(values.ramps)) {
        for (const after of numbers(values.after)) {
          for (const world of worlds()) {
            const fall = { kind, points, after, ramp };
            const within = WITHIN(points);
            const delays = [];
            for (let run = 0; run < runs; run++) {
              const { collapsed } = firstChanges(fallingRun(world, run, fall, within), settings, after);
              if (collapsed !== null) delays.push(collapsed - after - ramp);
            }
            delays.sort((a, b) => a - b);
            const median = delays[Math.floor(delays.length / 2)];
            const told = percent(toldPower(world, fall, within));
            const found = percent(delays.length / runs);
            row([world.name, points * 100, after, kind, ramp, within, found, median ?? '-', told]);
          }
        }
      }
    }
  }
}

/**
 * The fraction of accuracy steps that Page's CUSUM finds if it knows both means and the variance, at the
 * monitor's false alarm rate (0.1% of the runs): the best possible test of these averages (Moustakides 1986).
 * By simulation of normal groups; false alarms are at most exp(-h) per group.
 */
function toldPower({ solve: [a, b], shape: { completions } }, { points, after }, within) {
  const mean = a / (a + b);
  const between = (a * b) / ((a + b) ** 2 * (a + b + 1));
  const sd = Math.sqrt(between + (mean * (1 - mean) - between) / completions);
  const threshold = Math.log((after + within) / 0.001);
  const { uniform } = require('./synthetic-runs.cjs');
  const random = uniform(7);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const drift = points / sd;
  let found = 0;
  const trials = 2000;
  for (let i = 0; i < trials; i++) {
    let sum = 0;
    for (let n = 0; n < within; n++) {
      sum = Math.max(0, sum + drift * (normal() + drift) - drift ** 2 / 2);
      if (sum >= threshold) {
        found++;
        break;
      }
    }
  }
  return found / trials;
}

/** Delay versus false alarms for other values of collapseZ. */
function curve() {
  head([
    'collapseZ',
    'false of 1,200 steps',
    'found of 10 points',
    'median delay',
    'found of 20 points',
    'median delay',
  ]);
  for (const collapseZ of [3, 3.4, 3.8, 4.2, 4.6, 5]) {
    const given = {
      ...settings,
      collapseZ,
      warningZ: null,
      warningAccuracyDrop: null,
      warningAllWrongRise: null,
    };
    let [called, all] = [0, 0];
    const delays = { 0.1: [], 0.2: [] };
    for (const world of worlds()) {
      for (let run = 0; run < runs; run++) {
        all++;
        const { solve, shape, seed } = world;
        const thinking = [0.2, 800 * shape.prompts];
        const still = firstChanges({ seed: seed(run), solve, shape, steps: 1200, thinking }, given);
        if (still.collapsed !== null) called++;
        for (const points of [0.1, 0.2]) {
          const fall = { kind: 'spread', points, after: 1200, ramp: 0 };
          const { collapsed } = firstChanges(fallingRun(world, run, fall, WITHIN(points)), given, 1200);
          if (collapsed !== null) delays[points].push(collapsed - 1200);
        }
      }
    }
    const found = Object.values(delays).flatMap((list) => {
      list.sort((a, b) => a - b);
      return [percent(list.length / all), list[Math.floor(list.length / 2)] ?? '-'];
    });
    row([collapseZ, percent(called / all), ...found]);
  }
}

const commands = { stationary, falls, curve };
const command = commands[positionals[0]];
if (command === undefined || FIRST_SEED[values.seeds] === undefined) {
  console.error(
    'usage: node scripts/studies/guard-simulation.mjs stationary|falls|curve [--runs 300] [--seeds tune|judge]',
  );
  process.exit(2);
}
command();
