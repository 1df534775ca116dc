/**
 * Judges the predictions of docs/paper-again.md, which were written before the runs, on finished sweeps:
 *
 *   node scripts/studies/paper-again.mjs SWEEP CROSSED
 *
 * SWEEP is one of configs/tiny-sweep.yaml, CROSSED one of configs/tiny-crossed-sweep.yaml. Needs `npm run
 * build`.
 */
import { join } from 'node:path';
import { createRequire } from 'node:module';
import { scriptArguments } from '../lib/arguments.mjs';
import { root } from '../lib/study.mjs';

const require = createRequire(import.meta.url);
const dist = (/** @type {string} */ path) => require(join(root, 'dist', path));
const { fisherP } = dist('base/distributions.js');
const { CONTINUOUS, pText } = dist('sweep/claims.js');
const { endsLow } = dist('sweep/collapse.js');
const { comparisonsOf } = dist('sweep/comparisons.js');
const { readResults } = dist('sweep/results.js');

/** @typedef {import('../../src/sweep/results').Method} Method */
/** @typedef {import('../../src/sweep/results').RunResult} RunResult */

/** @param {RunResult} run */
const evaluations = (run) => [...run.evaluations.values()][0] ?? [];
/** @param {RunResult} run */
const last = (run) => evaluations(run).at(-1);
/** @param {RunResult} run */
const lost = (run) => endsLow(evaluations(run)) === true;
/** @param {RunResult[]} runs @param {(run: RunResult) => number} figure */
const meanOf = (runs, figure) => runs.reduce((sum, run) => sum + figure(run), 0) / runs.length;

const points = (/** @type {number} */ fraction) => `${(100 * fraction).toFixed(1)} points`;

/** @param {number} number @param {boolean} holds @param {string} evidence */
const judged = (number, holds, evidence) =>
  console.log(`${number}. ${holds ? 'holds' : 'fails'}: ${evidence}`);

/** @param {string} folder */
async function finished(folder) {
  const results = await readResults(folder);
  const runs = results.methods.flatMap((/** @type {Method} */ method) => method.runs);
  const missing = runs.filter(
    (/** @type {RunResult} */ run) => last(run)?.step !== run.data?.config?.maxSteps,
  );
  if (missing.length > 0) {
    console.error(`${folder}: ${missing.length} of ${runs.length} runs have no evaluation at their end.`);
    process.exit(2);
  }
  return { results, runs };
}

/** Predictions 1 to 7. @param {string} folder */
async function judgeRewards(folder) {
  const { results, runs } = await finished(folder);
  /** @param {string} name @returns {RunResult[]} */
  const of = (name) => results.methods.find((/** @type {Method} */ method) => method.reward === name).runs;
  const comparisons = comparisonsOf(results);
  /** @param {string} name @param {string} against @param {string} quantity */
  const compared = (name, against, quantity) =>
    comparisons.find(
      (/** @type {any} */ one) =>
        one.method.reward === name && one.against === against && one.quantity === quantity,
    );
  const lostOf = (/** @type {RunResult[]} */ some) => some.filter(lost).length;

  const touching = CONTINUOUS.flatMap(of);
  const others = runs.filter((/** @type {RunResult} */ run) => !touching.includes(run));
  const p = fisherP(lostOf(touching), touching.length, lostOf(others), others.length);
  const shares = `${lostOf(touching)} of ${touching.length} against ${lostOf(others)} of ${others.length}`;
  const more = lostOf(touching) / touching.length > lostOf(others) / others.length;
  judged(1, more && p < 0.05, `lost: ${shares}, ${pText(p)}`);
  for (const [number, name] of /** @type {const} */ ([
    [2, 'grpo-lp'],
    [3, 'beta0'],
  ])) {
    const { estimate, p: corrected } = compared(name, 'acoer', 'accuracy');
    const { low, high } = estimate.interval;
    judged(
      number,
      estimate.value < 0 && corrected < 0.05,
      `\`${name}\` differs from \`acoer\` by ${points(estimate.value)} (95% ${points(low)} to ${points(high)}), corrected ${pText(corrected)}`,
    );
  }
  const tokens = compared('acc', 'acoer', 'thinkingTokens');
  judged(
    4,
    tokens.estimate.value > 0 && tokens.p < 0.05,
    `\`acc\` thinks ${(100 * tokens.estimate.value).toFixed(0)}% longer, corrected ${pText(tokens.p)}`,
  );
  const [gain, change] = [compared('acoer', 'base', 'accuracy'), compared('acoer', 'base', 'thinkingTokens')];
  judged(
    5,
    gain.estimate.interval.low > -0.05 && change.estimate.value <= -0.6,
    `accuracy ${points(gain.estimate.value)} from the base (95% ${points(gain.estimate.interval.low)} to ${points(gain.estimate.interval.high)}), thinking ${(100 * change.estimate.value).toFixed(1)}%`,
  );
  judged(6, lostOf(of('binary')) <= 1, `lost: ${lostOf(of('binary'))} of ${of('binary').length}`);
  const betas = ['beta0.01', 'beta0.05', 'beta0.10'];
  judged(
    7,
    betas.every((name) => lostOf(of(name)) >= of(name).length - 1),
    `lost: ${betas.map((name) => `\`${name}\` ${lostOf(of(name))} of ${of(name).length}`).join(', ')}`,
  );
}

/** Predictions 8 to 11. @param {string} folder */
async function judgeCrossed(folder) {
  const { runs } = await finished(folder);
  /** @param {string | null} name @param {number} epsilon @param {string} [schedule] @returns {RunResult[]} */
  const of = (name, epsilon, schedule) =>
    runs.filter(
      ({ run }) =>
        (name === null || run.method.split(' ')[0] === name) &&
        run.point['advantageEpsilon'] === epsilon &&
        (schedule ?? run.point['lrSchedulerType']) === run.point['lrSchedulerType'],
    );
  /** @param {RunResult[]} some */
  const shown = (some) => `${some.filter(lost).length} of ${some.length} lost`;
  /** @param {RunResult[]} some */
  const thinking = (some) => some.map((run) => last(run).thinkingTokens.toFixed(1)).join(', ');

  const [theory, table] = [of('beta0.05-theory', 1e-4), of('beta0.05', 1e-4)];
  judged(
    8,
    theory.every((run) => lost(run) && last(run).thinkingTokens < 30) &&
      table.every((run) => last(run).thinkingTokens >= 30),
    `by the proofs ${shown(theory)}, ${thinking(theory)} thinking tokens; by the table ${shown(table)}, ${thinking(table)}`,
  );
  const gentle = of(null, 0.2, 'cosine');
  judged(9, !gentle.some(lost), shown(gentle));
  const penalty = of('grpo-lp', 1e-4);
  judged(10, penalty.every(lost), shown(penalty));
  const [acoer, ...others] = ['acoer', 'beta0', 'grpo-lp'].map((name) =>
    meanOf(of(name, 0.2, 'cosine'), (run) => last(run).accuracy),
  );
  judged(
    11,
    others.every((accuracy) => Math.abs(accuracy - (acoer ?? NaN)) < 0.05),
    `\`acoer\`, \`beta0\` and \`grpo-lp\` end at ${[acoer, ...others].map((one) => `${(100 * (one ?? NaN)).toFixed(1)}%`).join(', ')}`,
  );
}

const { positionals } = scriptArguments(import.meta.url, { allowPositionals: true, options: {} });
const [sweep, crossed] = positionals;
if (sweep === undefined || crossed === undefined) {
  console.error('usage: node scripts/studies/paper-again.mjs SWEEP CROSSED');
  process.exit(2);
}
await judgeRewards(sweep);
await judgeCrossed(crossed);
