/**
 * The gain of ranks-balance.mjs on 2 processes, measured: each decodes its share of recorded lengths with one thread, both
 * at once, and a batch has ended when the slower one has. Every batch is shared in both ways, one after the other.
 *
 *   node scripts/studies/ranks-measured.mjs RUN [--model FOLDER] [--dtype bfloat16] [--slots 16] [--batches 10]
 *
 * RUN: as for ranks-balance.mjs. FOLDER: the model that decodes (default: the embedded one, in float32). A batch has two
 * completions for every slot. Prints the seconds of both ways, and the median of their ratios with its quartiles.
 * Needs `npm run build` and two idle cores.
 */
import { fork } from 'node:child_process';
import { createRequire } from 'node:module';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { scriptArguments } from '../lib/arguments.mjs';
import { recordedGroups, sharesOf } from '../ranks/balance.mjs';
import { root } from '../lib/study.mjs';

const require = createRequire(import.meta.url);
const { ExpectedLengths } = require(join(root, 'dist/grpo/expected-lengths'));
const { quantile } = require(join(root, 'dist/base/statistics'));
const { TINY_MODEL } = require(join(root, 'dist/models'));

const { positionals, values } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    model: { type: 'string', default: TINY_MODEL },
    dtype: { type: 'string', default: 'float32' },
    slots: { type: 'string', default: '16' },
    batches: { type: 'string', default: '10' },
  },
});
if (positionals.length !== 1) {
  console.error('ranks-measured.mjs: name one run folder (--help)');
  process.exit(2);
}
const RANKS = 2;
const PROMPT_TOKENS = 40;
const slots = Number(values.slots);

const worker = fileURLToPath(new URL('../ranks/decode-lengths.mjs', import.meta.url));
const words = [values.model, values.dtype, String(slots), String(PROMPT_TOKENS)];
const ranks = Array.from({ length: RANKS }, () => fork(worker, words));
await Promise.all(ranks.map((rank) => once(rank, 'message')));

/** Milliseconds of each rank for its share. */
const decode = (shares) =>
  Promise.all(
    ranks.map(async (rank, i) => {
      rank.send(shares[i]);
      const [ms] = await once(rank, 'message');
      return ms;
    }),
  );

const seconds = (ms) => (ms / 1000).toFixed(2);

const groups = await recordedGroups(positionals[0]);
const count = Math.ceil((RANKS * slots * 2) / groups[0].rollouts.length);
const expected = new ExpectedLengths();
const ratios = [];
for (let at = 0; at + count <= groups.length && ratios.length < Number(values.batches); at += count) {
  const batch = groups.slice(at, at + count);
  const { inOrder, byLength } = sharesOf(batch, RANKS, expected);
  expected.observe(batch);
  // Nothing is known of the first, which warms up instead.
  if (at === 0) {
    await decode(inOrder);
    continue;
  }
  // The way that comes first changes, so that a drift of the machine favours neither.
  const ways = ratios.length % 2 === 0 ? [inOrder, byLength] : [byLength, inOrder];
  const times = new Map();
  for (const way of ways) times.set(way, await decode(way));
  const [plain, dealt] = [inOrder, byLength].map((way) => Math.max(...times.get(way)));
  ratios.push(plain / dealt);
  console.log(
    `batch of ${batch.length * batch[0].rollouts.length}: in order ${times.get(inOrder).map(seconds).join(' and ')} s, by length ${times.get(byLength).map(seconds).join(' and ')} s: ${(plain / dealt).toFixed(3)}x`,
  );
}
const [low, median, high] = [0.25, 0.5, 0.75].map((q) => quantile(ratios, q).toFixed(3));
console.log(`${ratios.length} batches: ${median}x (quartiles ${low} to ${high})`);
for (const rank of ranks) rank.kill();
