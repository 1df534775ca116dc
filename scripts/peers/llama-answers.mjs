/**
 * What llama.cpp says, through node-llama-cpp: greedy answers, log-probs of given tokens, ids of texts. A process of
 * its own, because node-llama-cpp hangs in one that has loaded acoer's engine.
 *
 *   node scripts/peers/llama-answers.mjs JOBS.json ANSWERS.json
 *
 * JOBS: {folder, jobs}; `folder` has node_modules/node-llama-cpp. A job names a GGUF file and what is asked of it:
 *   {path, lora?, prompts: [[id]], newTokens, scored: [{ids, from}], texts: [text]}
 * ANSWERS: for each job {greedy: [[id]], logprobs: [[number]], tokens: [[id]]}: of `scored` those of the ids `from` on.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [, , input, output] = process.argv;
const { folder, jobs } = JSON.parse(readFileSync(input, 'utf8'));
const library = pathToFileURL(join(folder, 'node_modules', 'node-llama-cpp', 'dist', 'index.js'));
const { getLlama } = await import(library.href);
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 1, logLevel: 'error' });

/** Logits as they are. */
const PLAIN = { temperature: 1, topK: 0, topP: 1, minP: 0 };

async function greedy(sequence, ids, count) {
  await sequence.clearHistory();
  const tokens = [];
  for await (const token of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
    tokens.push(token);
    if (tokens.length === count) break;
  }
  return tokens;
}

async function logprobs(sequence, { ids, from }) {
  await sequence.clearHistory();
  const asked = ids.slice(0, -1).map((token, i) => {
    if (i + 1 < from) return token;
    const logits = { filter: { tokens: [ids[i + 1]], includeMax: true } };
    return [token, { generateNext: { logits, totalLogitWeight: true, options: PLAIN } }];
  });
  const said = await sequence.controlledEvaluate(asked);
  return said.slice(from - 1).map(({ next: { logits, totalLogitWeight } }, i) => {
    const most = Math.max(...logits.values());
    return logits.get(ids[from + i]) - most - Math.log(totalLogitWeight);
  });
}

async function answers({ path, lora, prompts, newTokens, scored, texts }) {
  const vocabOnly = prompts.length + scored.length === 0;
  const model = await llama.loadModel({ modelPath: path, vocabOnly });
  const answer = { greedy: [], logprobs: [], tokens: texts.map((text) => [...model.tokenize(text, true)]) };
  if (!vocabOnly) {
    const sizes = [...prompts.map((ids) => ids.length + newTokens), ...scored.map(({ ids }) => ids.length)];
    const context = await model.createContext({
      contextSize: Math.max(...sizes) + 1,
      threads: 1,
      // In float16, as it is by default, the cache would decide how near the log-probs are.
      flashAttention: false,
      experimentalKvCacheKeyType: 'F32',
      experimentalKvCacheValueType: 'F32',
      ...(lora !== undefined && { lora: { adapters: [{ filePath: lora, scale: 1 }] } }),
    });
    const sequence = context.getSequence();
    for (const ids of prompts) answer.greedy.push(await greedy(sequence, ids, newTokens));
    for (const row of scored) answer.logprobs.push(await logprobs(sequence, row));
    await context.dispose();
  }
  await model.dispose();
  return answer;
}

const all = [];
for (const job of jobs) all.push(await answers(job));
writeFileSync(output, JSON.stringify(all));
process.exit(0);
