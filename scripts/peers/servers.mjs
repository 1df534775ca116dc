/** The servers that scripts/serve-load.mjs compares: how each is started, asked, held and ended. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, rename } from 'node:fs/promises';
import { cpus } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Agent } from 'undici';
import gguf from '../../dist/export/gguf-file.js';
import ggufTokenizer from '../../dist/export/gguf-tokenizer.js';
import models from '../../dist/models/index.js';
import tokenizers from '../../dist/tokenizer/index.js';
import { messageOf } from '../lib/errors.mjs';
import { freePort } from '../lib/ports.mjs';

const { writeGgufModel } = gguf;
const { tokenizerKeys } = ggufTokenizer;
const { loadTokenizer } = tokenizers;
const CLI = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
/** vLLM compiles its graphs for minutes on a loaded machine. */
const START_MS = 600_000;
const END_MS = 10_000;
const POLL_MS = 250;
const LOG_CHARACTERS = 4_000;
/** What a resumed server does first, such as noticing that a connection is gone, is over by then. */
const SETTLE_MS = 200;
/** llama.cpp gives each slot a multiple of this many tokens. */
const CONTEXT_BLOCK = 256;
/** Both cores compute; by itself vLLM keeps one of them for its scheduler. */
const VLLM = {
  VLLM_CPU_OMP_THREADS_BIND: `0-${cpus().length - 1}`,
  VLLM_CPU_KVCACHE_SPACE: '2', // GiB
  VLLM_NO_USAGE_STATS: '1',
  HF_HUB_OFFLINE: '1',
};

/** A connection for each request: whether a kept one still holds is a race where servers are stopped and resumed. */
const dispatcher = new Agent({ connections: 256, pipelining: 0, headersTimeout: 0, bodyTimeout: 0 });
const headers = {
  'Content-Type': 'application/json',
  Authorization: `Bearer ${process.env.OTHER_KEY ?? ''}`,
};

/** A server with OpenAI's completions. */
export class Server {
  /** @param address with /v1 @param child its process, which leads a group of its own; null: not started here */
  constructor(name, address, child = null) {
    Object.assign(this, { name, address, child, ended: null, log: '' });
    if (child === null) return;
    child.on('exit', (code, signal) => (this.ended = `${name} ended with ${signal ?? code}`));
    child.on('error', (error) => (this.ended = `${name} cannot be started: ${error.message}`));
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (text) => (this.log = (this.log + text).slice(-LOG_CHARACTERS)));
  }

  /** Waits until it answers, and takes the name of its first model. */
  async ready() {
    for (const until = Date.now() + START_MS; Date.now() < until; await setTimeout(POLL_MS)) {
      if (this.ended !== null) throw new Error(`${this.ended}:\n${this.log}`);
      try {
        const answer = await fetch(`${this.address}/models`, { headers, dispatcher });
        // llama.cpp answers 503 while it loads.
        if (answer.ok) return (this.model = (await answer.json()).data[0].id);
      } catch (error) {
        if (this.child === null)
          throw new Error(`${this.name} at ${this.address}: ${messageOf(error)}`, { cause: error });
      }
    }
    throw new Error(`${this.name} does not answer after ${START_MS / 1000} s:\n${this.log}`);
  }

  /** To all its processes. */
  signal(name) {
    if (this.child?.pid === undefined) return;
    try {
      process.kill(-this.child.pid, name);
    } catch {
      // None is left.
    }
  }

  /** Nothing of it runs until `resume`: vLLM's processes spin for a second after each answer. */
  pause() {
    this.signal('SIGSTOP');
  }

  async resume() {
    this.signal('SIGCONT');
    await setTimeout(SETTLE_MS);
  }

  kill() {
    this.signal('SIGKILL');
  }

  async end() {
    this.signal('SIGCONT');
    this.signal('SIGTERM');
    if (this.child !== null && this.ended === null)
      await Promise.race([once(this.child, 'exit'), setTimeout(END_MS, null, { ref: false })]);
    this.kill();
  }

  /** One whole answer of exactly `tokens` tokens. @param limitMs after which it is given up */
  async answer(prompt, seed, { tokens, stream, limitMs }) {
    const body = {
      ...{ model: this.model, prompt, max_tokens: tokens, temperature: 1, seed, ignore_eos: true },
      ...(stream && { stream: true }),
    };
    const signal = AbortSignal.timeout(limitMs);
    const request = { method: 'POST', headers, body: JSON.stringify(body), dispatcher, signal };
    try {
      const answer = await fetch(`${this.address}/completions`, request);
      const text = await answer.text();
      if (!answer.ok) throw new Error(text);
      if (stream) return;
      const made = JSON.parse(text).usage.completion_tokens;
      if (made !== tokens) throw new Error(`made ${made} tokens instead of ${tokens}`);
    } catch (error) {
      if (error.name === 'TimeoutError')
        throw new Error(`${this.name}: no answer within ${limitMs / 1000} s`, { cause: error });
      // What has broken a connection may be the end of the process, which is told a little later.
      if (error.cause !== undefined) await setTimeout(END_MS / 10);
      const why = this.ended ?? `${this.name}: ${messageOf(error.cause ?? error)}`;
      throw new Error(this.log === '' ? why : `${why}\n${this.log}`, { cause: error });
    }
  }
}

/** The model as `acoer export --gguf` writes it, unless the file is there. */
async function ggufOf({ engine, directory, scratch, type }) {
  const path = join(scratch, `${basename(directory)}-${type}.gguf`);
  if (existsSync(path)) return path;
  await mkdir(scratch, { recursive: true });
  const weights = { model: directory, weights: null, adapter: null };
  const { vocabSize } = await models.readModelSpec(directory);
  const { eosIds } = await loadTokenizer(directory);
  const about = await tokenizerKeys(directory, vocabSize, eosIds);
  const source = { model: directory, weights };
  await writeGgufModel(engine, source, `${path}.part`, { type, name: basename(directory), about });
  await rename(`${path}.part`, path);
  return path;
}

/** Starts a server. @param command gives program, words and variables for a port */
export async function started(name, command) {
  const port = await freePort();
  const [program, words, env = {}] = await command(port);
  const child = spawn(program, words.map(String), {
    ...{ detached: true, stdio: ['ignore', 'pipe', 'pipe'], env: { ...env, ...process.env } },
  });
  return new Server(name, `http://127.0.0.1:${port}/v1`, child);
}

/** `acoer serve`. @param of.type what it computes in (default: the model's own) */
export function acoerCommand(port, { directory, slots, type }) {
  const words = ['serve', directory, '--port', port, '--no-key', '--device', 'cpu', '--max-slots', slots];
  return [process.execPath, [CLI, ...words, ...(type === undefined ? [] : ['--dtype', type])]];
}

/**
 * llama.cpp's server: a slot for each caller, and nothing kept of earlier prompts, since every prompt is new. It draws
 * from the whole distribution, as the others do. @param of.type of the file's matrices
 */
export async function llamaCommand(program, port, of) {
  const { slots, length } = of;
  const context = slots * Math.ceil(length / CONTEXT_BLOCK) * CONTEXT_BLOCK;
  return [
    program,
    [
      ...['--model', await ggufOf(of), '--port', port, '--threads', cpus().length],
      ...['--parallel', slots, '--ctx-size', context, '--no-cache-prompt', '--cache-ram', 0],
      ...['--samplers', 'temperature', '--no-webui'],
    ],
  ];
}

/** vLLM's server; a step has room for the prompts of all callers. @param of.type what it computes in */
export function vllmCommand(python, port, { directory, slots, promptTokens, length, type }) {
  return [
    python,
    [
      ...['-m', 'vllm.entrypoints.openai.api_server', '--model', directory, '--dtype', type],
      ...['--host', '127.0.0.1', '--port', port, '--max-model-len', length, '--max-num-seqs', slots],
      ...['--max-num-batched-tokens', Math.max(slots * promptTokens, length), '--no-enable-prefix-caching'],
      ...['--generation-config', 'vllm', '--disable-uvicorn-access-log', '--disable-log-stats'],
    ],
    VLLM,
  ];
}
