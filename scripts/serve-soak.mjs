/**
 * Asks `acoer serve` for many answers and says whether its process grows:
 *
 *   node scripts/serve-soak.mjs [SERVED...] [--requests 10000] [--callers 16] [--heap 60]
 *                               [--kept-cache 50]
 *
 * SERVED is what `acoer serve` is given (tiny): runs, models. The callers ask all models in turn, for chats,
 * completions, streams read to the end, streams cut off after their first piece (1 in 6), and what is refused
 * (1 in 6). Growth is counted over the second half of the requests. `--heap` is V8's limit for old objects in
 * MB, `--kept-cache` the server's option.
 * Exit code: 1 if an answer was not what its kind has to be, or the server did not end with 0.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { scriptArguments } from './lib/arguments.mjs';
import { growthLines, look } from './lib/growth.mjs';
import { root } from './lib/study.mjs';

const LOOK_MS = 100;

const { values, positionals } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    requests: { type: 'string', default: '10000' },
    callers: { type: 'string', default: '16' },
    heap: { type: 'string', default: '60' },
    'kept-cache': { type: 'string', default: '50' },
  },
});
const [requests, callers] = [values.requests, values.callers].map(Number);
const served = positionals.length === 0 ? ['tiny'] : positionals;

const words = [
  'serve',
  ...served,
  '--port',
  '0',
  '--no-key',
  '--device',
  'cpu',
  '--kept-cache',
  values['kept-cache'],
];
const child = spawn(
  process.execPath,
  [`--max-old-space-size=${values.heap}`, join(root, 'dist/cli/main.js'), ...words],
  {
    env: { ...process.env, OMP_WAIT_POLICY: 'passive' },
    stdio: ['ignore', 'pipe', 'inherit'],
  },
);
const exit = once(child, 'exit');
const [address] = await once(createInterface({ input: child.stdout }), 'line');
const names = (await (await fetch(`${address}/models`)).json()).data.map(({ id }) => id);

let sentAgain = 0;

/** As OpenAI's clients do: a connection that was kept too long without a request may get its 408 instead of an answer. */
async function post(path, body, signal) {
  const response = await fetch(`${address}${path}`, {
    ...{ method: 'POST', body: JSON.stringify(body), signal },
    headers: { 'Content-Type': 'application/json' },
  });
  if (response.status !== 408) return response;
  sentAgain++;
  return post(path, body, signal);
}

function must(holds, what, seen) {
  if (!holds) throw new Error(`${what}: ${seen}`);
}

/** What a caller asks as its request number `i`, with what has to come back. */
const KINDS = {
  async chat(model, i) {
    const response = await post('/chat/completions', { model, messages: talk(i), max_tokens: 32, seed: i });
    const { choices } = await response.json();
    must(response.status === 200 && choices.length === 1, 'chat', response.status);
  },
  async conversation(model, i) {
    const messages = [...talk(i), { role: 'assistant', content: `${i % 3}` }, ...talk(i + 1)];
    const response = await post('/chat/completions', {
      ...{ model, messages, max_tokens: 16, logprobs: true, return_token_ids: true },
    });
    const text = await response.text();
    must(response.status === 200, 'conversation', `${response.status} ${text}`);
  },
  async completion(model, i) {
    const body = { model, prompt: `${i % 9}+${i % 7}`, max_tokens: 24, n: 2, logprobs: 0, seed: i };
    const response = await post('/completions', body);
    const { choices } = await response.json();
    must(response.status === 200 && choices.length === 2, 'completion', response.status);
  },
  async stream(model, i) {
    const body = { model, messages: talk(i), max_tokens: 32, stream: true };
    const text = await (await post('/chat/completions', body)).text();
    must(text.endsWith('data: [DONE]\n\n'), 'stream', text.slice(-80));
  },
  async cutOff(model, i) {
    const leaving = new AbortController();
    const body = { model, messages: talk(i), max_tokens: 200, ignore_eos: true, stream: true };
    const response = await post('/chat/completions', body, leaving.signal);
    const { value } = await response.body.getReader().read();
    must(value?.length > 0, 'stream to cut off', response.status);
    leaving.abort();
  },
  async refused(model, i) {
    const response = await post('/chat/completions', { model, messages: i % 2 === 0 ? 'none' : [{}] });
    const { error } = await response.json();
    must(response.status === 400 && error.message.length > 0, 'refusal', response.status);
  },
};
const kinds = Object.keys(KINDS);
const talk = (i) => [{ role: 'user', content: `${i % 10}+${(i * 7) % 10} mod 10?` }];

let [next, done] = [0, 0];
const failures = [];
async function call() {
  while (next < requests) {
    const i = next++;
    try {
      await KINDS[kinds[i % kinds.length]](names[Math.floor(i / kinds.length) % names.length], i);
    } catch (error) {
      failures.push(error);
    }
    done++;
  }
}

const samples = [];
const began = performance.now();
let over = false;
const looking = (async () => {
  while (!over && child.exitCode === null && child.signalCode === null) {
    samples.push({ done, ...look(child.pid) });
    await sleep(LOOK_MS);
  }
})();
await Promise.all(Array.from({ length: callers }, call));
const seconds = (performance.now() - began) / 1000;
over = true;
await looking;
child.kill('SIGTERM');
const [code] = await exit;

console.log(
  `${requests} requests of ${callers} callers to ${names.length} models in ${seconds.toFixed(0)} s`,
);
console.log(`failed: ${failures.length}${failures.length > 0 ? `, the first: ${failures[0].message}` : ''}`);
console.log(`sent again after a 408: ${sentAgain}`);
console.log(`exit code after SIGTERM: ${code}`);
console.log(
  growthLines(
    samples.filter((sample) => sample.done >= requests / 2),
    'request',
  ).join('\n'),
);
if (failures.length > 0 || code !== 0) process.exitCode = 1;
