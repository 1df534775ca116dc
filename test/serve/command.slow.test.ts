/** `acoer serve` and `acoer chat` as commands. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { acoer, builtCli } from '../helpers/cli';
import { tinyRun } from '../helpers/tiny-run';

const folder = mkdtempSync(join(tmpdir(), 'acoer-serve-'));
afterAll(() => rmSync(folder, { recursive: true }));

const keyFile = join(folder, 'key');
writeFileSync(keyFile, 'a-key-in-a-file\n');

const started = (...words: string[]) => startedBy([], words);

async function startedBy(nodeArguments: string[], words: string[]) {
  const all = [...nodeArguments, builtCli(), 'serve', 'tiny', '--port', '0', ...words];
  const child = spawn(process.execPath, all, { stdio: ['ignore', 'pipe', 'pipe'] });
  child.stderr.resume();
  // Several lines may come at once.
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async () => (await lines.next()).value as string;
  return { child, address: await line(), line };
}

test('the key of a file is asked for, and SIGTERM lets answers in progress end', async () => {
  const { child, address } = await started('--key-file', keyFile);
  const headers = { Authorization: 'Bearer a-key-in-a-file' };
  expect((await fetch(`${address}/models`)).status).toBe(401);
  expect((await fetch(`${address}/models`, { headers })).status).toBe(200);
  const body = JSON.stringify({
    model: 'base',
    prompt: '1',
    max_tokens: 300,
    ignore_eos: true,
    stream: true,
  });
  const answer = await fetch(`${address}/completions`, { method: 'POST', headers, body });
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  expect((await answer.text()).endsWith('data: [DONE]\n\n')).toBe(true);
  expect((await ended)[0]).toBe(0);
}, 60_000);

test('without --key-file a key is made and printed', async () => {
  const { child, address, line } = await started();
  const key = /^key: ([\w-]{32})$/.exec(await line())![1];
  expect((await fetch(`${address}/models`, { headers: { Authorization: `Bearer ${key}` } })).status).toBe(
    200,
  );
  child.kill('SIGTERM');
  await once(child, 'exit');
}, 60_000);

/** Objects on the heap of a process that was started with these arguments of Node's. */
const SNAPSHOTS = ['--heapsnapshot-signal=SIGWINCH', `--diagnostic-dir=${folder}`];
async function liveObjects(child: ReturnType<typeof spawn>, address: string): Promise<number> {
  const files = () => readdirSync(folder).filter((name) => name.endsWith('.heapsnapshot'));
  child.kill('SIGWINCH');
  while (files().length === 0) await setTimeout(20);
  // It is written in one go, between two requests.
  await (await fetch(`${address}/models`)).text();
  const path = join(folder, files()[0]!);
  const { snapshot } = JSON.parse(readFileSync(path, 'utf8')) as { snapshot: { node_count: number } };
  rmSync(path);
  return snapshot.node_count;
}

test('nothing is kept of requests that are over', async () => {
  const { child, address } = await startedBy(SNAPSHOTS, ['--no-key']);
  const ask = async (count: number) => {
    for (let i = 0; i < count; i++) await (await fetch(`${address}/models`)).text();
  };
  await ask(1000);
  const before = await liveObjects(child, address);
  await ask(3000);
  expect((await liveObjects(child, address)) - before).toBeLessThan(1500);
  child.kill('SIGTERM');
  await once(child, 'exit');
}, 120_000);

test.each([
  [['serve', 'tiny', '--no-key', '--host', '0.0.0.0'], /Without a key only this machine/],
  [['serve', 'tiny', '--no-key', '--key-file', keyFile], /cannot be combined/],
  [['serve', 'tiny', '--key-file', join(folder, 'none')], /Cannot read/],
  [['serve', 'tiny', '--allow-lora-updates'], /needs --lora-root/],
  [['serve', 'tiny', '--lora-root', folder], /is for --allow-lora-updates/],
  [['serve', 'tiny', '--adapter', 'x'], /NAME=FOLDER/],
  [['serve', 'no/such/folder/at/all'], /no such folder/],
  [['chat', 'tiny', '--weights', 'final'], /There is no "final" here; there are base/],
])('%j is refused', async (words, why) => {
  const { code, stderr } = await acoer(...words);
  expect(code).toBe(2);
  expect(stderr).toMatch(why);
});

async function chat(words: string[], lines: string) {
  const child = spawn(process.execPath, [builtCli(), 'chat', ...words], { stdio: ['pipe', 'pipe', 'pipe'] });
  let [out, notes] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (notes += chunk.toString()));
  child.stdin.end(lines);
  const [code] = (await once(child, 'close')) as [number];
  return { code, out, notes };
}

test('chat shows the trained model beside the one before training', async () => {
  const run = await tinyRun();
  try {
    const { code, out, notes } = await chat([run.path, '--beside', 'base', '--seed', '1'], '6-3-4 mod 10?\n');
    expect(code).toBe(0);
    expect(out).toMatch(/^final\n[^]+\nbase\n[^]+\n$/);
    expect(notes.match(/\d+ tokens/g)).toHaveLength(2);
  } finally {
    run.remove();
  }
}, 120_000);

test('chat asks the lines of a pipe, and keeps the conversation', async () => {
  const { code, out, notes } = await chat(
    ['tiny', '--temperature', '0'],
    '6-3-4 mod 10?\n/new\n6-3-4 mod 10?\n',
  );
  expect(code).toBe(0);
  expect(out).toMatch(/\\boxed\{\d+\}/);
  expect(out.slice(0, out.length / 2)).toBe(out.slice(out.length / 2));
  expect(notes.match(/\d+ tokens, \d+ of thinking/g)).toHaveLength(2);
}, 60_000);
