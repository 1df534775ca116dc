/**
 * Measures the cost of a change: the same benchmark in two built checkouts, run alternately.
 *
 *   node scripts/compare-checkouts.mjs BEFORE AFTER [--pairs 15] [-- bench arguments]
 *
 * Each pair runs `acoer bench step` (or whatever follows `--`) once in either folder, alternating which comes
 * first. Prints the median of after / before with a 95% interval (bootstrap over the pairs), and the range of
 * either side.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { scriptArguments } from './lib/arguments.mjs';

const split = process.argv.indexOf('--');
const own = process.argv.slice(2, split < 0 ? undefined : split);
const bench = split < 0 ? ['step', '--model', 'tiny', '--repeats', '3'] : process.argv.slice(split + 1);
const { positionals, values } = scriptArguments(import.meta.url, {
  args: own,
  allowPositionals: true,
  options: { pairs: { type: 'string', default: '15' } },
});
if (positionals.length !== 2) {
  console.error('usage: node scripts/compare-checkouts.mjs BEFORE AFTER [--pairs 15] [-- bench arguments]');
  process.exit(2);
}
const [before, after] = positionals;
const pairs = Number(values.pairs);

const [phase] = bench;

/** Median seconds over the benchmark's repeats. */
function seconds(folder) {
  const args = [join(folder, 'dist', 'cli', 'main.js'), 'bench', ...bench, '--device', 'cpu', '--json'];
  const printed = execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });
  const { phases } = JSON.parse(printed.trimEnd().split('\n').at(-1));
  return phases[phase].seconds.median;
}

const median = (numbers) => {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[Math.floor(middle - 0.5)] + sorted[Math.ceil(middle - 0.5)]) / 2;
};
const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];

const times = [];
for (let pair = 0; pair < pairs; pair++) {
  const first = pair % 2 === 0;
  const [a, b] = first ? [seconds(before), seconds(after)] : [seconds(after), seconds(before)].reverse();
  times.push([a, b]);
  console.error(`pair ${pair + 1}: ${a.toFixed(3)} s, ${b.toFixed(3)} s`);
}
const ratios = times.map(([a, b]) => b / a);
const resampled = Array.from({ length: 10_000 }, () =>
  median(ratios.map(() => ratios[Math.floor(Math.random() * ratios.length)])),
).sort((a, b) => a - b);
const spread = (side) => {
  const own = times.map((pair) => pair[side]).sort((a, b) => a - b);
  return `${median(own).toFixed(3)} s (${own[0].toFixed(3)} to ${own.at(-1).toFixed(3)})`;
};
console.log(`before  ${spread(0)}`);
console.log(`after   ${spread(1)}`);
console.log(
  `after / before, median of ${pairs} pairs: ${median(ratios).toFixed(3)}, 95% ${quantile(resampled, 0.025).toFixed(3)} to ${quantile(resampled, 0.975).toFixed(3)}`,
);
