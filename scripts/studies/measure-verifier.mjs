/**
 * How often the verifier is right, by class and next to math_verify, and the cost of a verdict:
 *
 *   node scripts/studies/measure-verifier.mjs PAIRS.jsonl [--show agreement|truth|slow] [--preset math-verify|trl]
 *
 * A line of PAIRS is {"gold","pred"} with one or more of: `truth` (whether the answer is correct, according
 * to scripts/fixtures/verify_pairs.py) with `category`; `mathVerify` (math_verify's verdict, measured against
 * the same truth); and, for pairs made from real answers, `expected` (math_verify's verdict) with
 * `constructed` (the truth where it is known). `kind` and `config` are optional. Needs `npm run build:ts`.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { performance } from 'node:perf_hooks';
import { scriptArguments } from '../lib/arguments.mjs';

const require = createRequire(import.meta.url);
const { verifyAnswer } = require('../../packages/verify/dist/index.js');
const { optionsFromConfig } = require('../../dist/grading/config.js');

const { positionals, values } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: { show: { type: 'string' }, preset: { type: 'string', default: 'math-verify' } },
});
const [path] = positionals;
if (path === undefined) {
  console.error(
    'usage: node scripts/studies/measure-verifier.mjs PAIRS.jsonl [--show agreement|truth|slow] [--preset math-verify|trl]',
  );
  process.exit(2);
}
const rows = readFileSync(path, 'utf8')
  .split('\n')
  .filter((line) => line.trim() !== '')
  .map((line) => JSON.parse(line));

const judge = (row) => verifyAnswer(row.gold, row.pred, optionsFromConfig(row.config, values.preset));

// Take the minimum of several rounds, because other processes can only add time. The first round warms up the
// compiler, and references stay cached as in training.
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
const truthOf = (row) => row.truth ?? row.constructed;
const known = judged.filter((row) => typeof truthOf(row) === 'boolean');
const fair = judged.filter(
  (row) => typeof row.expected === 'boolean' && (row.constructed ?? row.expected) === row.expected,
);
const agree = fair.filter((row) => row.correct === row.expected);
const tally = (rows, verdict) => ({
  right: rows.filter((row) => verdict(row) === truthOf(row)).length,
  falseAccepts: rows.filter((row) => verdict(row) && !truthOf(row)).length,
  falseRejects: rows.filter((row) => !verdict(row) && truthOf(row)).length,
});
const own = tally(known, (row) => row.correct);
const ms = judged.map((row) => row.ms).sort((a, b) => a - b);
const statuses = {};
for (const { status } of judged) statuses[status] = (statuses[status] ?? 0) + 1;

console.log(`rows             ${rows.length}`);
if (fair.length > 0) console.log(`fair agreement   ${percent(agree.length, fair.length)}`);
console.log(`truth            ${percent(own.right, known.length)}`);
console.log(`false accepts    ${own.falseAccepts}`);
console.log(`false rejects    ${own.falseRejects}`);
const mean = ms.reduce((sum, value) => sum + value, 0) / ms.length;
const quantile = (q) => ms[Math.min(ms.length - 1, Math.floor(q * ms.length))];
console.log(
  `ms per case      mean ${mean.toFixed(4)}  p99 ${quantile(0.99).toFixed(3)}  max ${ms.at(-1).toFixed(2)}`,
);
console.log(`CPU ms per case  ${((cpu.user + cpu.system) / 1000 / ROUNDS / rows.length).toFixed(4)}`);
console.log(`statuses         ${JSON.stringify(statuses)}`);

/**
 * A line per class: rows, then for each verifier the fraction that is right, false accepts and false rejects.
 */
const printClasses = () => {
  const classes = new Map([['all', known]]);
  for (const row of known) {
    if (!classes.has(row.category)) classes.set(row.category, []);
    classes.get(row.category).push(row);
  }
  const compared = known.every((row) => typeof row.mathVerify === 'boolean');
  const verifiers = [(row) => row.correct, ...(compared ? [(row) => row.mathVerify] : [])];
  const line = (name, rows, cells) =>
    console.log(
      `${name.padEnd(24)}${rows.padStart(6)}` +
        cells.map((cell) => cell.map((c) => c.padStart(9)).join('')).join('   '),
    );
  const heads = [['right', 'accepts', 'rejects'], ...(compared ? [['mv right', 'accepts', 'rejects']] : [])];
  console.log('\nfalse accepts and rejects by class' + (compared ? '; mv is math_verify' : ''));
  line('class', 'rows', heads);
  for (const [name, rows] of [...classes].sort(
    ([a], [b]) => (a === 'all') - (b === 'all') || a.localeCompare(b),
  )) {
    const cells = verifiers.map((verdict) => {
      const { right, falseAccepts, falseRejects } = tally(rows, verdict);
      return [`${((100 * right) / rows.length).toFixed(1)}%`, `${falseAccepts}`, `${falseRejects}`];
    });
    line(name, `${rows.length}`, cells);
  }
};
if (known.some((row) => row.category !== undefined)) printClasses();

const shown = {
  agreement: () => fair.filter((row) => row.correct !== row.expected),
  truth: () => known.filter((row) => row.correct !== truthOf(row)),
  slow: () => [...judged].sort((a, b) => b.ms - a.ms).slice(0, 20),
}[values.show]?.();
for (const row of shown ?? []) {
  const { kind, category, gold, pred, extracted, status, expected, constructed, truth, ms: cost } = row;
  console.log(
    JSON.stringify({
      kind,
      category,
      gold,
      extracted,
      pred: pred.slice(-80),
      status,
      expected,
      constructed,
      truth,
      ms: +cost.toFixed(2),
    }),
  );
}
