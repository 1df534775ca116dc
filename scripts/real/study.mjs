/**
 * The study on a real model: SmolLM2-135M-Instruct learns to think at length, then to think shorter, with six rewards.
 *
 *   node scripts/real/study.mjs [--folder DIR] [--seeds 1-3] [--rewards acc,...] [--table] [--set PATH=VALUE]...
 *
 *   --folder DIR   of the runs (.cache/real/study)
 *   --seeds LIST   of the GRPO runs (1); all rewards of a seed come before the next seed
 *   --rewards LIST names of configs/real/*.yaml (acc,beta0,beta0.05,grpo-lp,acoer,acoer-held)
 *   --set ...      changes a setting of the GRPO runs, in a folder of their own
 *   --table        trains nothing: prints the tables of docs/real-model.md from what has finished
 *
 * Goes on where it was stopped: finished runs are kept, others are resumed. Needs `npm run build` and
 * scripts/real/fetch-smollm2; run it from the root of the repository.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import statistics from '../../dist/base/statistics.js';
import { scriptArguments } from '../lib/arguments.mjs';
import { root, seedsOf } from '../lib/study.mjs';

const { mean, sampleStd } = statistics;

const REWARDS = 'acc,beta0,beta0.05,grpo-lp,acoer,acoer-held';
const TASK = join('.cache', 'real', 'task');
const ACOER = join(root, 'dist', 'cli', 'main.js');

/** Runs a program to its end; a failure ends the study. */
function done(...words) {
  const { status, signal } = spawnSync(process.execPath, words, { cwd: root, stdio: 'inherit' });
  if (status !== 0) {
    console.error(`study: node ${words.join(' ')} ended with ${status ?? signal}`);
    process.exit(status ?? 130);
  }
}

const finished = (out) => existsSync(resolve(root, out, 'summary.json'));

/** Trains to the end with what is there: a finished run, one to resume, or none. */
function ensureRun(command, out, ...words) {
  if (finished(out)) return;
  const begun = existsSync(resolve(root, out, 'config.json'));
  console.log(`${begun ? 'resuming' : 'starting'} ${out}`);
  if (begun) done(ACOER, command, '--resume', out);
  else done(ACOER, command, ...words, '--out', out);
}

const summaryOf = (out) => JSON.parse(readFileSync(resolve(root, out, 'summary.json'), 'utf8'));

const percent = (value) => `${(100 * value).toFixed(1)}`;
const change = (after, before) => `${after <= before ? '' : '+'}${(100 * (after / before - 1)).toFixed(0)}%`;

/** 97.5% points of Student's t with 1, 2, ... degrees of freedom. */
const T_975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/** Half the width of the 95% interval of the mean, for 2 to 10 values that are normal. */
const tInterval = (values) => (T_975[values.length - 2] * sampleStd(values)) / Math.sqrt(values.length);

/** `values` as `81.5` or, of several seeds, `81.5 +- 2.1 (79.0, 84.0)`: mean, 95% interval of the mean, each. */
function ofSeeds(values, shown) {
  if (values.length === 1) return shown(values[0]);
  return `${shown(mean(values))} +- ${shown(tInterval(values))} (${values.map(shown).join(', ')})`;
}

function printTables(runs) {
  const rewards = [...new Set(runs.map(({ reward }) => reward))];
  const byReward = rewards.map((name) => [name, runs.filter(({ reward }) => reward === name)]);
  const { base } = runs[0].summary;
  const tokens = (value) => value.toFixed(1);
  console.log(`Before, greedy: ${percent(base.greedy.accuracy)}% right of ${base.greedy.n}, ` +
    `${tokens(base.greedy.thinkingTokens)} thinking and ${tokens(base.greedy.totalTokens)} tokens.\n`); // prettier-ignore
  console.log('| reward | seeds | right, % | tokens | change of tokens | thinking tokens |');
  console.log('| --- | --- | --- | --- | --- | --- |');
  for (const [reward, all] of byReward) {
    const after = all.map(({ summary }) => summary.trained.greedy);
    const totals = after.map(({ totalTokens }) => totalTokens);
    const cells = [
      `\`${reward}\``,
      all.map(({ seed }) => seed).join(', '),
      ofSeeds(after.map(({ accuracy }) => accuracy), percent), // prettier-ignore
      ofSeeds(totals, tokens),
      change(mean(totals), base.greedy.totalTokens),
      ofSeeds(after.map(({ thinkingTokens }) => thinkingTokens), tokens), // prettier-ignore
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
  const levels = Object.keys(base.greedy.perLevel);
  console.log(`\n| reward | ${levels.map((level) => `level ${level}`).join(' | ')} |`);
  console.log(`| --- |${' --- |'.repeat(levels.length)}`);
  const row = (name, of) => console.log(`| ${name} | ${levels.map(of).join(' | ')} |`);
  const cell = (list, level) => {
    const at = list.map(({ perLevel }) => perLevel[level]);
    return `${percent(mean(at.map(({ accuracy }) => accuracy)))} / ${tokens(mean(at.map(({ totalTokens }) => totalTokens)))}`;
  };
  row('before', (level) => cell([base.greedy], level));
  for (const [reward, all] of byReward) {
    row(`\`${reward}\``, (level) => cell(all.map(({ summary }) => summary.trained.greedy), level)); // prettier-ignore
  }
}

const { values } = scriptArguments(import.meta.url, {
  options: {
    folder: { type: 'string', default: join('.cache', 'real', 'study') },
    seeds: { type: 'string', default: '1' },
    rewards: { type: 'string', default: REWARDS },
    set: { type: 'string', multiple: true, default: [] },
    table: { type: 'boolean', default: false },
  },
});
const variant = values.set.length === 0 ? '' : `${values.set.join(' ').replaceAll(/[^\w.=-]+/g, '_')} `;
const runs = seedsOf(values.seeds).flatMap((seed) =>
  values.rewards
    .split(',')
    .map((reward) => ({ reward, seed, out: join(values.folder, `${variant}${reward}-${seed}`) })),
);
if (!values.table) {
  if (!existsSync(join(root, TASK, 'test.jsonl'))) done(join(root, 'scripts', 'real', 'make-task.mjs'));
  const verbose = join(values.folder, 'sft');
  ensureRun('sft', verbose, join('configs', 'real', 'sft.yaml'));
  const changes = values.set.flatMap((change) => ['--set', change]);
  for (const { reward, seed, out } of runs) {
    const from = ['--adapter', join(verbose, 'final'), '--seed', String(seed)];
    ensureRun('train', out, join('configs', 'real', `${reward}.yaml`), ...from, ...changes);
  }
}
const ended = runs.filter(({ out }) => finished(out)).map((run) => ({ ...run, summary: summaryOf(run.out) }));
if (ended.length === 0) {
  console.error(`study: no run of these has finished in ${values.folder}`);
  process.exit(2);
}
printTables(ended);
