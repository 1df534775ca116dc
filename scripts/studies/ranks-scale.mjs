/**
 * What a step takes with more and more ranks, by a model of it (docs/scale.md):
 *
 *   node scripts/studies/ranks-scale.mjs [--ranks 1,2,...] [--completions 16] [--per-rank] [--name value ...]
 *
 * `--completions` of a step, shared by all ranks; with `--per-rank` each rank has so many. Every constant is an option:
 *
 *   tokens          3800     of a completion
 *   weights         6        ms of a decode step for reading the weights
 *   sequence        0.7      ms of a decode step for each sequence
 *   train           5400     tokens a second that a rank trains on
 *   parameters      17.4     million that are trained; a sum sends 8 bytes for each
 *   bandwidth       1.04     GB/s that a rank sends
 *   latency         0.05     ms of a message
 *   row             0.41     ms for a completion of 2,000 tokens to be written, sent and read
 *   gathers         12       of a step
 *   call            1.55     ms of a gather of nothing between two ranks
 *   imbalance       1.1      of the rank that samples longest
 */
import { scriptArguments } from '../lib/arguments.mjs';

const CONSTANTS = {
  completions: 16,
  tokens: 3800,
  weights: 6,
  sequence: 0.7,
  train: 5400,
  parameters: 17.4,
  bandwidth: 1.04,
  latency: 0.05,
  row: 0.41,
  gathers: 12,
  call: 1.55,
  imbalance: 1.1,
};
const { values } = scriptArguments(import.meta.url, {
  options: {
    ranks: { type: 'string', default: '1,2,4,8,16,32,64,128,256,512,1024' },
    'per-rank': { type: 'boolean', default: false },
    ...Object.fromEntries(
      Object.entries(CONSTANTS).map(([name, value]) => [name, { type: 'string', default: String(value) }]),
    ),
  },
});
const of = (name) => Number(values[name]);

/** Seconds of a step's parts. A rank that has less than a whole completion waits for one that has. */
function stepOf(ranks) {
  const all = of('completions') * (values['per-rank'] ? ranks : 1);
  const own = Math.max(1, Math.ceil(all / ranks));
  const several = ranks > 1 ? 1 : 0;
  const ring = several * (ranks - 1);
  return {
    sample: (of('tokens') * (of('weights') + own * of('sequence')) * (several ? of('imbalance') : 1)) / 1000,
    rows: (several * all * of('row') * of('tokens')) / 2000 / 1000,
    train: (own * of('tokens')) / of('train'),
    sum:
      ((2 * ring) / ranks) * ((of('parameters') * 8e6) / (of('bandwidth') * 1e9)) +
      (2 * ring * of('latency')) / 1000,
    // Two rings each: lengths, then bytes.
    latency: (of('gathers') * (several * of('call') + 2 * ring * of('latency'))) / 1000,
  };
}

const PARTS = ['sample', 'rows', 'train', 'sum', 'latency'];
console.log(['ranks', ...PARTS, 'step', 'tokens/s', 'of linear'].map((name) => name.padStart(10)).join(''));
let alone = 0;
for (const ranks of values.ranks.split(',').map(Number)) {
  const parts = stepOf(ranks);
  const step = PARTS.reduce((sum, part) => sum + parts[part], 0);
  const rate = (of('completions') * (values['per-rank'] ? ranks : 1) * of('tokens')) / step;
  alone ||= rate / ranks;
  const cells = [ranks, ...PARTS.map((part) => parts[part].toFixed(2)), step.toFixed(1)];
  console.log(
    [...cells, rate.toFixed(0), (rate / ranks / alone).toFixed(2)]
      .map((cell) => String(cell).padStart(10))
      .join(''),
  );
}
