#!/usr/bin/env node
/**
 * How far the sampler's log-probs are from the trainer's with keys and values in the model's type and in int8: samples
 * answers to a few problems and scores the same tokens.
 *
 *   node scripts/kv-cache-gap.mjs [--model tiny|FOLDER|ORG/NAME] [--dtype T] [--samples 4] [--tokens 128] [--seed 1]
 *
 * Prints one line of JSON per cache: tokens; mean and largest |difference| in nats a token; the estimated KL divergence
 * of sampler and trainer per token, mean of exp(d) - 1 - d for d = trainer - sampler; the share of tokens whose ratio is
 * above 2 or below 1/2.
 */
import acoer from '../dist/index.js';
import { scriptArguments } from './lib/arguments.mjs';

const QUESTIONS = [
  'A shop sells pens at 3 for 4 dollars. How many dollars do 21 pens cost?',
  'What is the sum of the first 40 odd numbers?',
  'A train goes 150 km in 2 hours and then 90 km in 1 hour. What is its average speed in km/h?',
  'How many ways are there to choose 3 of 8 books?',
];
/** The embedded model knows its own task only. */
const TINY_QUESTIONS = ['3+4+5=', '7+1+2+9=', '8+8+1=', '2+6+4+4='];

const { values } = scriptArguments(import.meta.url, {
  options: {
    model: { type: 'string', default: 'tiny' },
    dtype: { type: 'string' },
    samples: { type: 'string', default: '4' },
    tokens: { type: 'string', default: '128' },
    seed: { type: 'string', default: '1' },
  },
});

const { directory } = await acoer.resolveModel(values.model);
const tokenizer = await acoer.loadTokenizer(directory);
const asked = values.model === 'tiny' ? TINY_QUESTIONS : QUESTIONS;
const prompts = asked.map((content) =>
  Int32Array.from(
    tokenizer.encode(
      tokenizer.renderChat([{ role: 'user', content }], { enableThinking: true, addGenerationPrompt: true }),
    ),
  ),
);

const engine = await acoer.createEngine({ device: 'cpu' });
const model = await engine.loadModel(directory, values.dtype === undefined ? {} : { dtype: values.dtype });

async function gapWith(kvCacheDtype) {
  const requests = prompts.map((promptIds, i) => ({
    promptIds,
    numSamples: Number(values.samples),
    seed: BigInt(values.seed) * 1000n + BigInt(i),
    maxNewTokens: Number(values.tokens),
    stopIds: Int32Array.from(tokenizer.eosIds),
  }));
  const { sequences } = await model.generate(requests, { kvCacheDtype });
  let [tokens, total, largest, divergence, outside] = [0, 0, 0, 0, 0];
  for (const { request, ids, logprobs } of sequences) {
    const prompt = prompts[request];
    const all = Int32Array.from([...prompt, ...ids]);
    const scored = await model.score({
      ids: all,
      offsets: Int32Array.of(0, all.length),
      promptLengths: Int32Array.of(prompt.length),
    });
    scored.logprobs.forEach((ofTrainer, t) => {
      const difference = ofTrainer - logprobs[t];
      tokens += 1;
      total += Math.abs(difference);
      largest = Math.max(largest, Math.abs(difference));
      divergence += Math.exp(difference) - 1 - difference;
      if (Math.abs(difference) > Math.LN2) outside += 1;
    });
  }
  return {
    kvCacheDtype,
    dtype: model.info.dtype,
    tokens,
    mean: total / tokens,
    largest,
    divergence: divergence / tokens,
    outside: outside / tokens,
  };
}

for (const kvCacheDtype of ['auto', 'int8']) console.log(JSON.stringify(await gapWith(kvCacheDtype)));
await engine.dispose();
