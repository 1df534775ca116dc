#!/usr/bin/env node
/**
 * What lossless speculation gains on this machine: time of decoding with each number of proposed tokens, in turns, so
 * that other work on the machine meets all of them.
 *
 *   node scripts/speculation-speed.mjs RUN [--tokens 0,1,2,4,8] [--prompts 1,4] [--samples 1] [--rounds 5] [--seed 0]
 *
 * The model and the prompts are those of RUN, with its final weights and its temperature; a prompt is of one of its first
 * steps. Two threads, or `--threads`. Prints, per number of prompts that decode together, the median and the quartiles of the milliseconds of a
 * token (decoding only, on the clock), its ratio by pairs to that without proposals, tokens a step, and the share of the
 * proposals that were drawn. Fails if a token differs. Needs `npm run build:ts`.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { scriptArguments } from './lib/arguments.mjs';
import { spread } from './lib/spread.mjs';

const require = createRequire(import.meta.url);
const { createEngine, loadTokenizer, resolveModel } = require('../dist/index.js');
const { completionTables, readCompletions } = require('../dist/run/index.js');

const { positionals, values } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    tokens: { type: 'string', default: '0,1,2,4,8' },
    prompts: { type: 'string', default: '1,4' },
    samples: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '5' },
    seed: { type: 'string', default: '0' },
    threads: { type: 'string', default: '2' },
  },
});
const [run] = positionals;
if (run === undefined) {
  console.error('usage: node scripts/speculation-speed.mjs RUN [--tokens 0,1,2,4,8] [--prompts 1,4]');
  process.exit(2);
}
const [samples, rounds, seed, threads] = ['samples', 'rounds', 'seed', 'threads'].map((name) =>
  Number(values[name]),
);
const [counts, together] = ['tokens', 'prompts'].map((name) => values[name].split(',').map(Number));

const config = JSON.parse(readFileSync(join(run, 'config.json'), 'utf8'));
const { directory } = await resolveModel(config.model);
const tokenizer = await loadTokenizer(directory);
const engine = await createEngine({ device: 'cpu', threads });
const model = await engine.loadModel(directory, { dtype: config.dtype ?? undefined });
const policy = await model.loadAdapter(join(run, 'final'));

/** Different ones, as many as are asked for in all rounds. */
async function promptsOf(wanted) {
  const found = new Set();
  for (const table of completionTables(run)) {
    for (const { prompt } of await readCompletions(table)) found.add(prompt);
    if (found.size >= wanted) break;
  }
  return [...found].slice(0, wanted);
}

async function decode(prompts, round, numSpeculativeTokens) {
  const requests = prompts.map((prompt, i) => ({
    promptIds: Int32Array.from(tokenizer.encode(prompt)),
    numSamples: samples,
    seed: BigInt(seed + 1000 * round + i),
    maxNewTokens: config.maxCompletionLength,
    stopIds: Int32Array.from(tokenizer.eosIds),
    sampling: { temperature: config.temperature },
    policy,
  }));
  const { sequences, stats } = await model.generate(requests, { numSpeculativeTokens });
  const text = sequences.map(({ ids }) => ids.join(' ')).join('\n');
  return { ...stats, text, sequences: sequences.length, msPerToken: stats.decodeMs / stats.newTokens };
}

for (const number of together) {
  const prompts = await promptsOf(number * rounds);
  if (prompts.length < number * rounds) {
    throw new Error(`${run} kept ${prompts.length} prompts; ${rounds} rounds of ${number} take more.`);
  }
  const found = new Map(counts.map((count) => [count, []]));
  for (let round = -1; round < rounds; round++) {
    const place = Math.max(0, round); // the first round warms up
    const some = prompts.slice(place * number, (place + 1) * number);
    for (const count of counts) {
      const one = await decode(some, place, count);
      if (round >= 0) found.get(count).push(one);
    }
  }
  console.log(`${number} prompts of ${samples} samples, ${threads} threads`);
  const without = found.get(counts[0]);
  for (const [count, all] of found) {
    if (all.some(({ text }, i) => text !== without[i].text)) throw new Error('A token differs.');
    const sum = (name) => all.reduce((total, one) => total + one[name], 0);
    const ratios = all.map(({ msPerToken }, i) => msPerToken / without[i].msPerToken);
    const share = sum('proposedTokens') === 0 ? 0 : sum('acceptedTokens') / sum('proposedTokens');
    console.log(
      [
        `  ${count} proposed: ${spread(
          all.map(({ msPerToken }) => msPerToken),
          2,
        )} ms a token`,
        `${spread(ratios, 2)} of that without`,
        `${(sum('newTokens') / sum('decodeSteps')).toFixed(2)} tokens a step`,
        `${(100 * share).toFixed(0)}% of ${sum('proposedTokens')} drawn`,
      ].join(', '),
    );
  }
}
await engine.dispose();
