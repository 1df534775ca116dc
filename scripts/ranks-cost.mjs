/**
 * What the exchanges of a run of several processes cost on this machine (docs/scale.md):
 *
 *   node scripts/ranks-cost.mjs [--ranks 2,4] [--gather 0,1,5] [--rows 16] [--tokens 2000] [--sum 17.4] [--rounds 9]
 *
 * Starts so many processes, joins them as `acoer train --nproc` does, and prints the median time, until the last rank
 * is done, of a gather in which each brings so many megabytes, of one in which each brings so many completions of
 * `--tokens` tokens, and of a sum of so many million numbers in float64 (an adapter of rank 16 on Qwen3-1.7B has 17.4).
 * Under a launcher it measures the launcher's processes instead. Needs `npm run build`.
 */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { join as pathOf } from 'node:path';
import { fileURLToPath } from 'node:url';
import { scriptArguments } from './lib/arguments.mjs';
import { freePort } from './lib/ports.mjs';
import { root } from './lib/study.mjs';

const { values } = scriptArguments(import.meta.url, {
  options: {
    ranks: { type: 'string', default: '2,4' },
    gather: { type: 'string', default: '0,1,5' },
    rows: { type: 'string', default: '16' },
    tokens: { type: 'string', default: '2000' },
    sum: { type: 'string', default: '17.4' },
    rounds: { type: 'string', default: '9' },
  },
});
const require = createRequire(import.meta.url);
const { join, launchOf, Ranks } = require(pathOf(root, 'dist/ranks'));
const { timed } = require(pathOf(root, 'dist/ranks/measure'));
const numbers = (text) => text.split(',').map(Number);
const MILLION = 1e6;

/** As it is sent after sampling (src/grpo/rollouts.ts). */
const completion = (place, tokens) => ({
  place,
  rollout: {
    sample: 0,
    ids: new Int32Array(tokens),
    logprobs: new Float64Array(tokens),
    entropies: new Float64Array(tokens),
    text: 'word '.repeat(tokens),
    finish: 'stop',
    verdict: { correct: true, status: 'correct', extracted: '42' },
    format: true,
    thinkingTokens: tokens,
    thinkingClosed: true,
    totalTokens: tokens,
  },
});

async function measure(launch) {
  const joined = await join(launch, { warn: console.error });
  const ranks = new Ranks(joined.group);
  const rounds = Number(values.rounds);
  const time = (work) => timed(joined.group, rounds, work);
  const say = (text) => ranks.rank === 0 && console.log(text);
  for (const megabytes of numbers(values.gather)) {
    const bytes = new Uint8Array(megabytes * MILLION);
    const ms = await time(() => ranks.gather('bytes', () => Promise.resolve(bytes)));
    say(`${ranks.size} ranks, gather of ${megabytes} MB each: ${ms.toFixed(2)} ms`);
  }
  for (const count of numbers(values.rows)) {
    const rows = Array.from({ length: count }, (_, place) => completion(place, Number(values.tokens)));
    const ms = await time(() => ranks.gather('rows', () => Promise.resolve(rows)));
    const each = ms / (count * ranks.size);
    say(
      `${ranks.size} ranks, gather of ${count} completions each: ${ms.toFixed(1)} ms, ${each.toFixed(2)} a completion`,
    );
  }
  for (const millions of numbers(values.sum)) {
    const sums = new Float64Array(millions * MILLION);
    const ms = await time(() => joined.group.sumInPlace(sums));
    const sent = (2 * (ranks.size - 1) * sums.byteLength) / ranks.size;
    const rate = sent / ms / MILLION;
    say(
      `${ranks.size} ranks, sum of ${millions} million: ${ms.toFixed(1)} ms, ${rate.toFixed(2)} GB/s sent by each`,
    );
  }
  joined.beats.finish();
  await joined.part();
}

async function start(size) {
  const shared = {
    WORLD_SIZE: size,
    LOCAL_WORLD_SIZE: size,
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: await freePort(),
  };
  const codes = Array.from(
    { length: size },
    (_, rank) =>
      new Promise((resolve) => {
        const env = { ...process.env, ...shared, RANK: rank, LOCAL_RANK: rank };
        const words = [fileURLToPath(import.meta.url), ...process.argv.slice(2)];
        spawn(process.execPath, words, { env, stdio: 'inherit' }).once('close', resolve);
      }),
  );
  return (await Promise.all(codes)).find((code) => code !== 0) ?? 0;
}

const launch = launchOf(process.env);
if (launch !== null) await measure(launch);
else for (const size of numbers(values.ranks)) process.exitCode ||= await start(size);
