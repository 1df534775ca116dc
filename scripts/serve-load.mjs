/**
 * Tokens per second of `acoer serve` for several callers at once, beside the engine called directly and beside other
 * servers with OpenAI's completions.
 *
 *   node scripts/serve-load.mjs [--model tiny] [--callers 1,16,64] [--tokens 128] [--prompt 64] [--rounds 5]
 *                               [--types bfloat16,float32] [--no-direct] [--stream] [--limit 600]
 *                               [--llama-server PROGRAM [--llama-types bf16] [--scratch FOLDER]]
 *                               [--vllm PYTHON [--vllm-types bfloat16]] [--other NAME=URL]...
 *
 *   --types         what acoer's server computes in (default: the model's own type)
 *   --no-direct     without the direct call, whose model is a second one in memory
 *   --llama-server  llama.cpp's server; it gets the model in GGUF files of these types (bf16, f16, f32, q8_0), which
 *                   are left in --scratch for the next run with this model (default: they are removed)
 *   --vllm          the Python of an environment that has vLLM, which computes in these types
 *   --other         a server that runs already with the same model, called as its /models lists it first; its key is
 *                   in OTHER_KEY
 *   --limit         seconds after which an answer is given up; the run then ends with what it has, and with 1
 *
 * Every caller sends one request at the same moment, with a prompt of its own of random ids, and reads the whole
 * answer. In each round all are asked in turn, each with every number of callers, so that a machine that gets slower
 * gets slower for all. Servers started here (peers/servers.mjs says how; variables of the environment reach them) are
 * stopped while another one is asked. `direct` is one call of `model.generate` with the same requests in this process.
 * A round of short answers warms up. Prints medians and ranges; `of acoer` is the time over that of the first server
 * in the same round.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import engines from '../dist/engine/engine.js';
import models from '../dist/models/index.js';
import { scriptArguments } from './lib/arguments.mjs';
import { messageOf } from './lib/errors.mjs';
import { acoerCommand, llamaCommand, Server, started, vllmCommand } from './peers/servers.mjs';

const { values } = scriptArguments(import.meta.url, {
  options: {
    model: { type: 'string', default: 'tiny' },
    callers: { type: 'string', default: '1,16,64' },
    tokens: { type: 'string', default: '128' },
    prompt: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '5' },
    types: { type: 'string', default: '' },
    'no-direct': { type: 'boolean', default: false },
    stream: { type: 'boolean', default: false },
    limit: { type: 'string', default: '600' },
    'llama-server': { type: 'string' },
    'llama-types': { type: 'string', default: 'bf16' },
    scratch: { type: 'string' },
    vllm: { type: 'string' },
    'vllm-types': { type: 'string', default: 'bfloat16' },
    other: { type: 'string', multiple: true, default: [] },
  },
});

function numbersOf(option) {
  const numbers = values[option].split(',').map(Number);
  if (numbers.every((number) => Number.isSafeInteger(number) && number > 0)) return numbers;
  console.error(`serve-load: --${option} ${values[option]} must be of whole numbers above 0`);
  return process.exit(2);
}
const callers = numbersOf('callers');
const [[tokens], [promptTokens], [rounds], [limit]] = ['tokens', 'prompt', 'rounds', 'limit'].map(numbersOf);
const asking = { stream: values.stream, limitMs: limit * 1000 };
/** Answers of the round that warms up: prompts are whole there, so that all memory has been touched. */
const WARM_UP_TOKENS = Math.min(tokens, 4);

let draws = 1;
/** Ids that no earlier prompt had, so that no server has them cached. */
function promptOf(vocabSize) {
  draws = (draws * 48_271) % 2_147_483_647;
  let state = draws;
  return Array.from({ length: promptTokens }, () => (state = (state * 48_271) % 2_147_483_647) % vocabSize);
}

/** The engine in this process, asked as a server is. */
async function directOf(engine, directory) {
  const model = await engine.loadModel(directory);
  const requestOf = (maxNewTokens) => (prompt, i) => ({
    ...{ promptIds: Int32Array.from(prompt), seed: BigInt(i), maxNewTokens },
    stopIds: new Int32Array(),
  });
  return { name: 'direct', ask: (prompts, count) => model.generate(prompts.map(requestOf(count))) };
}

const served = (server) => ({
  name: server.name,
  async ask(prompts, count) {
    await Promise.all(prompts.map((prompt, i) => server.answer(prompt, i, { ...asking, tokens: count })));
  },
  resume: () => server.resume(),
  pause: () => server.pause(),
});

/** Every server's name and how it is started. */
function commands(engine, directory, scratch) {
  const listed = (text) => text.split(',').filter((word) => word !== '');
  const room = { slots: Math.max(...callers), promptTokens, length: promptTokens + tokens };
  const of = { engine, directory, scratch, ...room };
  const own = listed(values.types);
  const { 'llama-server': llama, vllm } = values;
  return [
    ...(own.length === 0 ? [['acoer serve', (port) => acoerCommand(port, of)]] : []),
    ...own.map((type) => [`acoer serve, ${type}`, (port) => acoerCommand(port, { ...of, type })]),
    ...listed(llama === undefined ? '' : values['llama-types']).map((type) => [
      `llama.cpp, ${type}`,
      (port) => llamaCommand(llama, port, { ...of, type }),
    ]),
    ...listed(vllm === undefined ? '' : values['vllm-types']).map((type) => [
      `vLLM, ${type}`,
      (port) => vllmCommand(vllm, port, { ...of, type }),
    ]),
  ];
}

/** Adds each round's seconds by name and number of callers. The round before the first warms up. */
async function measured(all, vocabSize, seconds) {
  for (let round = -1; round < rounds; round++) {
    for (const count of callers) {
      for (const { name, ask, resume, pause } of round % 2 === 0 ? all : all.toReversed()) {
        const prompts = Array.from({ length: count }, () => promptOf(vocabSize));
        await resume?.();
        const began = performance.now();
        await ask(prompts, round < 0 ? WARM_UP_TOKENS : tokens);
        const elapsed = (performance.now() - began) / 1000;
        pause?.();
        const what = round < 0 ? 'warming up' : `round ${round + 1}`;
        console.error(`${what}, ${count} callers, ${name}: ${elapsed.toFixed(2)} s`);
        if (round >= 0) ((seconds[name] ??= {})[count] ??= []).push(elapsed);
      }
    }
  }
}

const median = (numbers) => {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[Math.floor(middle - 0.5)] + sorted[Math.ceil(middle - 0.5)]) / 2;
};
const spread = (numbers, digits) =>
  `${median(numbers).toFixed(digits)} (${Math.min(...numbers).toFixed(digits)}-${Math.max(...numbers).toFixed(digits)})`;

/** @param base the name of what the others are compared with */
function printTable(seconds, base) {
  console.log(`${values.model}: prompts of ${promptTokens}, answers of ${tokens} tokens, ${rounds} rounds\n`);
  console.log('| callers | what | tokens/s | of acoer |\n| --- | --- | --- | --- |');
  for (const count of callers) {
    for (const name of Object.keys(seconds)) {
      const times = seconds[name][count] ?? [];
      const own = seconds[base]?.[count] ?? [];
      const both = times.slice(0, own.length);
      if (both.length === 0) continue;
      const rates = times.map((time) => (count * tokens) / time);
      const ratios = both.map((time, i) => time / own[i]);
      console.log(`| ${count} | ${name} | ${spread(rates, rates[0] < 100 ? 1 : 0)} | ${spread(ratios, 2)} |`);
    }
  }
}

const { directory } = await models.resolveModel(values.model);
const { vocabSize } = await models.readModelSpec(directory);
const engine = await engines.createEngine({ device: 'cpu' });
const scratch = values.scratch ?? mkdtempSync(join(tmpdir(), 'acoer-serve-load-'));
const servers = [];
const seconds = {};
const removed = () => {
  for (const server of servers) server.kill();
  if (values.scratch === undefined) rmSync(scratch, { recursive: true, force: true });
};
process.on('exit', removed);
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
try {
  for (const [name, command] of commands(engine, directory, scratch)) {
    const server = await started(name, command);
    servers.push(server);
    await server.ready();
    server.pause();
  }
  for (const other of values.other) {
    const [name, url] = other.split(/=(.*)/s);
    servers.push(new Server(name, url));
    await servers.at(-1).ready();
  }
  const direct = values['no-direct'] ? [] : [await directOf(engine, directory)];
  await measured([...servers.map(served), ...direct], vocabSize, seconds);
} catch (error) {
  console.error(`serve-load: ${messageOf(error)}`);
  process.exitCode = 1;
}
printTable(seconds, servers[0]?.name);
await Promise.all(servers.map((server) => server.end()));
await engine.dispose();
