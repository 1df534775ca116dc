/**
 * How long the sampling of a step takes when its completions are shared among ranks in several ways, by the lengths
 * that a run has recorded (docs/ranks.md):
 *
 *   node scripts/studies/ranks-balance.mjs RUN... [--ranks 2,8,64] [--waves 1,2,4] [--slots 32]
 *
 * RUN: a folder of a run with `completionsSteps: 1`. Time is in decode steps of equal cost; a rank decodes `--slots`
 * completions at a time, and a batch has `--waves` completions for every slot of all ranks, put together from as many
 * recorded steps as that takes. Lengths are expected from the batches before, as in a run. Needs `npm run build`.
 *
 *   in order        neighbouring groups, the same number for each rank
 *   by length       what acoer does: dealt by expected length, the longest first (src/base/dealing.ts)
 *   a queue         each rank takes the next part of the batch when a slot is free
 *   a queue, long   the same, parts in the order of expected length
 *   a queue, known  the same, single completions in the order of their true length: a bound
 *   least           the longest completion, or all of them spread without a gap
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { scriptArguments } from '../lib/arguments.mjs';
import { lengthsOf, recordedGroups, sharesOf } from '../ranks/balance.mjs';
import { root } from '../lib/study.mjs';

const require = createRequire(import.meta.url);
const { ExpectedLengths } = require(join(root, 'dist/grpo/expected-lengths'));

const { positionals, values } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    ranks: { type: 'string', default: '2,8,64' },
    waves: { type: 'string', default: '1,2,4' },
    slots: { type: 'string', default: '32' },
  },
});
const numbers = (text) => text.split(',').map(Number);
const slots = Number(values.slots);
if (positionals.length === 0) {
  console.error('ranks-balance.mjs: name at least one run folder (--help)');
  process.exit(2);
}

/** When the last of `lengths` ends, if each begins in the slot that is free first. */
function makespan(lengths, size) {
  const free = new Float64Array(size);
  for (const length of lengths) {
    let first = 0;
    for (let i = 1; i < size; i++) if (free[i] < free[first]) first = i;
    free[first] += length;
  }
  return Math.max(...free);
}

/** Decode steps of one batch, in the order of `WAYS`. */
function stepsOf(batch, size, expected) {
  const { inOrder, byLength } = sharesOf(batch, size, expected);
  const all = batch.flatMap(lengthsOf);
  const means = batch.map(({ prompt }) => expected.of(prompt));
  const byExpected = batch.map((_, place) => place).sort((a, b) => means[b] - means[a] || a - b);
  const sum = all.reduce((total, length) => total + length, 0);
  return [
    Math.max(...inOrder.map((own) => makespan(own, slots))),
    Math.max(...byLength.map((own) => makespan(own, slots))),
    makespan(all, slots * size),
    makespan(
      byExpected.flatMap((place) => lengthsOf(batch[place])),
      slots * size,
    ),
    makespan(
      [...all].sort((a, b) => b - a),
      slots * size,
    ),
    Math.max(...all, sum / (slots * size)),
  ];
}

const WAYS = ['in order', 'by length', 'a queue', 'a queue, long', 'a queue, known', 'least'];

console.log(['ranks', 'waves', 'batches', ...WAYS].map((name) => name.padStart(15)).join(''));
const recorded = await Promise.all(positionals.map(recordedGroups));
for (const size of numbers(values.ranks)) {
  for (const waves of numbers(values.waves)) {
    const sums = WAYS.map(() => 0);
    let batches = 0;
    for (const groups of recorded) {
      const expected = new ExpectedLengths();
      const count = Math.ceil((size * slots * waves) / groups[0].rollouts.length);
      for (let at = 0; at + count <= groups.length; at += count) {
        const batch = groups.slice(at, at + count);
        // Nothing is known of the first.
        if (at > 0) {
          stepsOf(batch, size, expected).forEach((steps, way) => (sums[way] += steps));
          batches++;
        }
        expected.observe(batch);
      }
    }
    if (batches === 0) continue;
    const means = sums.map((sum) => sum / batches);
    const cells = means.map((mean) => `${mean.toFixed(0)} (${(means[0] / mean).toFixed(2)}x)`);
    console.log([size, waves, batches, ...cells].map((cell) => String(cell).padStart(15)).join(''));
  }
}
