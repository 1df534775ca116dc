/**
 * Tokens per second of `acoer serve` for several callers at once, beside the engine called directly and beside other
 * servers with OpenAI's completions.
 *
 *   node scripts/serve-load.mjs [--model tiny] [--callers 1,16,64] [--tokens 128] [--prompt 64] [--rounds 5]
 *                               [--other NAME=URL]... [--stream]
 *
 * Every caller sends one request at the same moment, with a prompt of its own of random ids, and reads the whole
 * answer. In each round all are asked in turn, each with every number of callers, so that a machine that gets slower
 * gets slower for all. `direct` is one call of `model.generate` with the same requests in this process. An other server
 * must have the same model, called as its /models lists it first; its key is in OTHER_KEY. Prints medians and ranges;
 * `ratio` is the time over that of the direct call of the same round.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Agent } from 'undici';
import engines from '../dist/engine/engine.js';
import models from '../dist/models/index.js';
import { scriptArguments } from './lib/arguments.mjs';

const { values } = scriptArguments(import.meta.url, {
  options: {
    model: { type: 'string', default: 'tiny' },
    callers: { type: 'string', default: '1,16,64' },
    tokens: { type: 'string', default: '128' },
    prompt: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '5' },
    other: { type: 'string', multiple: true, default: [] },
    stream: { type: 'boolean', default: false },
  },
});
const callers = values.callers.split(',').map(Number);
const [tokens, promptTokens, rounds] = [values.tokens, values.prompt, values.rounds].map(Number);
const dispatcher = new Agent({ connections: 256, headersTimeout: 0, bodyTimeout: 0 });

const { directory } = await models.resolveModel(values.model);
const engine = await engines.createEngine({ device: 'cpu' });
const model = await engine.loadModel(directory);
const { vocabSize } = model.info;

let draws = 1;
/** Ids that no earlier prompt had, so that no server has them cached. */
function promptOf() {
  draws = (draws * 48_271) % 2_147_483_647;
  let state = draws;
  return Array.from({ length: promptTokens }, () => (state = (state * 48_271) % 2_147_483_647) % vocabSize);
}

async function started() {
  const cli = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
  const words = ['serve', values.model, '--port', '0', '--no-key', '--device', 'cpu'];
  const child = spawn(process.execPath, [cli, ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [address] = await once(createInterface({ input: child.stdout }), 'line');
  return { child, address };
}

const headers = {
  'Content-Type': 'application/json',
  Authorization: `Bearer ${process.env.OTHER_KEY ?? ''}`,
};

async function asking(address) {
  const list = await (await fetch(`${address}/models`, { headers })).json();
  const name = list.data[0].id;
  return async (prompts) => {
    const one = async (prompt, i) => {
      const body = {
        ...{ model: name, prompt, max_tokens: tokens, temperature: 1, seed: i, ignore_eos: true },
        ...(values.stream && { stream: true }),
      };
      const request = { method: 'POST', headers, body: JSON.stringify(body), dispatcher };
      const answer = await fetch(`${address}/completions`, request);
      const text = await answer.text();
      if (!answer.ok) throw new Error(text);
      if (values.stream) return;
      const made = JSON.parse(text).usage.completion_tokens;
      if (made !== tokens) throw new Error(`${address} made ${made} tokens instead of ${tokens}`);
    };
    await Promise.all(prompts.map(one));
  };
}

async function direct(prompts) {
  await model.generate(
    prompts.map((prompt, i) => ({
      ...{ promptIds: Int32Array.from(prompt), seed: BigInt(i), maxNewTokens: tokens },
      stopIds: new Int32Array(),
    })),
  );
}

const { child, address } = await started();
const asked = { direct, 'acoer serve': await asking(address) };
for (const other of values.other) {
  const [name, url] = other.split(/=(.*)/s);
  asked[name] = await asking(url);
}

const seconds = {};
for (let round = -1; round < rounds; round++) {
  for (const count of callers) {
    const names = Object.keys(asked);
    for (const name of round % 2 === 0 ? names : names.reverse()) {
      const prompts = Array.from({ length: count }, promptOf);
      const began = performance.now();
      await asked[name](prompts);
      // The round before the first warms up.
      if (round >= 0) ((seconds[name] ??= {})[count] ??= []).push((performance.now() - began) / 1000);
    }
  }
}
child.kill();
await engine.dispose();

const median = (numbers) => {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[Math.floor(middle - 0.5)] + sorted[Math.ceil(middle - 0.5)]) / 2;
};
const spread = (numbers, digits) =>
  `${median(numbers).toFixed(digits)} (${Math.min(...numbers).toFixed(digits)}-${Math.max(...numbers).toFixed(digits)})`;
console.log(`${values.model}: prompts of ${promptTokens}, answers of ${tokens} tokens, ${rounds} rounds\n`);
console.log('| callers | what | tokens/s | ratio of times |\n| --- | --- | --- | --- |');
for (const count of callers) {
  for (const name of Object.keys(asked)) {
    const times = seconds[name][count];
    const rates = times.map((time) => (count * tokens) / time);
    const ratios = times.map((time, i) => time / seconds.direct[count][i]);
    console.log(`| ${count} | ${name} | ${spread(rates, 0)} | ${spread(ratios, 2)} |`);
  }
}
