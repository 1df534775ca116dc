/**
 * How often the verifier agrees with math_verify and with the truth, and what a verdict costs:
 *
 *   node scripts/measure-verifier.mjs PAIRS.jsonl [--show agreement|truth|slow] [--preset math-verify|trl]
 *
 * A line of PAIRS is {"gold","pred"} with `expected` (math_verify's verdict) and, where the pair was made so that it is
 * known, `constructed` (the truth); `kind` and `config` are optional. Needs `npm run build:ts`.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';

const { optionsFromConfig, verifyAnswer } = createRequire(import.meta.url)('../dist/verify/index.js');

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { show: { type: 'string' }, preset: { type: 'string', default: 'math-verify' } },
});
const [path] = positionals;
if (path === undefined) {
  console.error('usage: node scripts/measure-verifier.mjs PAIRS.jsonl [--show agreement|truth|slow]');
  process.exit(2);
}
const rows = readFileSync(path, 'utf8')
  .split('\n')
  .filter((line) => line.trim() !== '')
  .map((line) => JSON.parse(line));

const judge = (row) => verifyAnswer(row.gold, row.pred, optionsFromConfig(row.config, values.preset));

// The least of several rounds: other processes can only add to a time. The first round warms up the compiler, and
// references stay cached as in training.
const ROUNDS = 5;
const judged = rows.map((row) => ({ ...row, ...judge(row), ms: Infinity }));
const cpuBefore = process.cpuUsage();
for (let round = 0; round < ROUNDS; round++) {
  for (const row of judged) {
    const start = performance.now();
    judge(row);
    row.ms = Math.min(row.ms, performance.now() - start);
  }
}
const cpu = process.cpuUsage(cpuBefore);

const percent = (part, whole) => `${((100 * part) / Math.max(1, whole)).toFixed(2)}% (${part} of ${whole})`;
const known = judged.filter((row) => typeof row.constructed === 'boolean');
const fair = judged.filter((row) => typeof row.expected === 'boolean' && (row.constructed ?? row.expected) === row.expected);
const agree = fair.filter((row) => row.correct === row.expected);
const right = known.filter((row) => row.correct === row.constructed);
const falseAccepts = known.filter((row) => row.correct && !row.constructed);
const ms = judged.map((row) => row.ms).sort((a, b) => a - b);
const statuses = {};
for (const { status } of judged) statuses[status] = (statuses[status] ?? 0) + 1;

console.log(`rows             ${rows.length}`);
console.log(`fair agreement   ${percent(agree.length, fair.length)}`);
console.log(`truth            ${percent(right.length, known.length)}`);
console.log(`false accepts    ${falseAccepts.length}`);
const mean = ms.reduce((sum, value) => sum + value, 0) / ms.length;
const quantile = (q) => ms[Math.min(ms.length - 1, Math.floor(q * ms.length))];
console.log(`ms a case        mean ${mean.toFixed(4)}  p99 ${quantile(0.99).toFixed(3)}  max ${ms.at(-1).toFixed(2)}`);
console.log(`CPU ms a case    ${((cpu.user + cpu.system) / 1000 / ROUNDS / rows.length).toFixed(4)}`);
console.log(`statuses         ${JSON.stringify(statuses)}`);

const shown = {
  agreement: () => fair.filter((row) => row.correct !== row.expected),
  truth: () => known.filter((row) => row.correct !== row.constructed),
  slow: () => [...judged].sort((a, b) => b.ms - a.ms).slice(0, 20),
}[values.show]?.();
for (const row of shown ?? []) {
  const { kind, gold, pred, extracted, status, expected, constructed, ms: cost } = row;
  console.log(JSON.stringify({ kind, gold, extracted, pred: pred.slice(-80), status, expected, constructed, ms: +cost.toFixed(2) }));
}
