/** Sinks that misbehave, in files and as objects. Runs the compiled program: a thread needs JavaScript. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type * as Library from '../../src/index';
import type { Sink } from '../../src/index';
import { readMetrics } from '../../src/run';
import { builtCli, ROOT } from '../helpers/cli';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeDataset, fakeTokenizer } from '../helpers/fake-tokenizer';
import { asCall, type Given } from '../helpers/given';

const dist = join(dirname(builtCli()), '..');
// eslint-disable-next-line @typescript-eslint/no-require-imports
const { train } = require(join(dist, 'index.js')) as typeof Library;

const root = mkdtempSync(join(tmpdir(), 'acoer-sink-module-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let files = 0;

function file(code: string): string {
  const path = join(root, `sink-${files++}.mjs`);
  writeFileSync(path, code);
  return path;
}

const options = (changes: Given): Given & { out: string } => ({
  model: 'tiny',
  out: join(root, `run-${files++}`),
  maxSteps: 3,
  saveSteps: 2,
  maxCompletionLength: 40,
  evalProblems: 0,
  evalSampledProblems: 0,
  completionsSteps: 2,
  sinkTimeoutMs: 300,
  engine: new FakeEngine(),
  tokenizer: fakeTokenizer,
  trainData: fakeDataset(30),
  ...changes,
});

/** The warnings of a whole run, which must make all of its steps. */
async function warningsOf(changes: Given): Promise<string[]> {
  const warnings: string[] = [];
  const onEvent: Given['onEvent'] = (event) => {
    if (event.type === 'warning') warnings.push(event.message);
  };
  const given = options({ onEvent, ...changes });
  await (await train(...asCall(given))).result();
  expect(readMetrics(join(given.out, 'metrics.jsonl'))).toHaveLength(3);
  return warnings;
}

test('a module gets every step, the completions, the events and the run it belongs to, and is closed', async () => {
  const notes = join(root, 'notes');
  const code = `import { appendFileSync } from 'node:fs';
    const note = (text) => appendFileSync(${JSON.stringify(notes)}, text + '\\n');
    export default ({ directory, config }) => ({
      rewind: (step) => note('rewind ' + step),
      step: (metrics) => note('step ' + metrics.step),
      completions: (step, rows) => note('completions ' + step + ' ' + rows.length + ' ' + (rows[0].rollout.ids instanceof Int32Array)),
      event: (event) => event.type === 'checkpoint' && note('checkpoint ' + event.step),
      flush: () => note('flush'),
      close: () => note('close ' + config.maxSteps + ' ' + directory),
    });`;
  const given = options({ sinks: [file(code)] });
  await (await train(...asCall(given))).result();
  const lines = readFileSync(notes, 'utf8').trim().split('\n');
  expect(lines[0]).toBe('rewind 0');
  expect(lines.filter((line) => line.startsWith('step'))).toEqual(['step 1', 'step 2', 'step 3']);
  expect(lines).toContainEqual(expect.stringMatching(/^completions 2 \d+ true$/));
  expect(lines.filter((line) => line.startsWith('checkpoint'))).toEqual(['checkpoint 2', 'checkpoint 3']);
  expect(lines.at(-1)).toBe(`close 3 ${given.out}`);
});

test('every example of a sink works in its thread', async () => {
  const given = options({ sinks: [join(ROOT, 'examples', 'sink.mjs')] });
  await (await train(...asCall(given))).result();
  const lines = readFileSync(join(given.out, 'reward.csv'), 'utf8').trim().split('\n');
  expect(lines.map((line) => line.split(',')[0])).toEqual(['1', '2', '3']);
});

const NEVER = 'new Promise(() => {})';
const CALLS = ['rewind', 'step', 'completions', 'event', 'flush', 'close'];

test.each([
  ...CALLS.map((call) => [
    `never answers ${call}`,
    `${call}: () => ${NEVER}`,
    call,
    'no answer within 300 ms',
  ]),
  ...CALLS.map((call) => [`loops in ${call}`, `${call}() { for (;;); }`, call, 'no answer within 300 ms']),
  ['loops after it has awaited', 'async step() { await null; for (;;); }', 'step', 'no answer within 300 ms'],
  [
    'loops later',
    'step() { setTimeout(() => { for (;;); }, 0); }',
    '(step|event|flush|completions|close)',
    'no answer within 300 ms',
  ],
  [
    'throws later',
    "step() { setTimeout(() => { throw new Error('lost'); }, 0); }",
    '(step|event|flush|completions|close)',
    'lost',
  ],
  [
    'rejects and nobody listens',
    "step() { Promise.reject(new Error('lost')); }",
    '(step|event|flush|completions|close)',
    'lost',
  ],
  ['throws nothing', 'step() { throw null; }', 'step', 'null'],
  [
    'ends its process',
    'step() { process.exit(0); }',
    '(step|event|flush|completions|close)',
    'its thread ended',
  ],
])('a module that %s is left out with one warning, and the run goes on', async (_, method, call, why) => {
  const path = file(`export default () => ({ ${method} });`);
  const warnings = await warningsOf({ sinks: [path] });
  expect(warnings.filter((message) => message.startsWith('Sink '))).toEqual([
    expect.stringMatching(new RegExp(`^Sink ${path} failed at ${call} and gets nothing more: ${why}$`)),
  ]);
});

test.each([
  ['a timer', 'setInterval(() => {}, 1000)'],
  ['a server', "(await import('node:net')).createServer().listen(0)"],
  ['a value that cannot be copied', 'Symbol()'],
])('a module that keeps or returns %s is no fault', async (_, code) => {
  const path = file(`export default () => ({ step: async () => ${code} });`);
  expect(await warningsOf({ sinks: [path] })).toEqual([]);
});

test.each<[string, Sink, string]>([
  ['never answers', { step: () => new Promise(() => undefined) }, 'step'],
  [
    'loops',
    {
      step: () => {
        for (;;);
      },
    },
    'step',
  ],
  [
    'loops in an event',
    {
      event: () => {
        for (;;);
      },
    },
    'event',
  ],
  ['never answers flush', { flush: () => new Promise(() => undefined) }, 'flush'],
  ['never closes', { close: () => new Promise(() => undefined) }, 'close'],
])('an object that %s is left out with one warning, and the run goes on', async (_, sink, call) => {
  expect(await warningsOf({ sinks: [sink] })).toEqual([
    `Sink 1 of train() failed at ${call} and gets nothing more: no answer within 300 ms`,
  ]);
});

test('a run that is asked to end does not wait for a slow sink', async () => {
  const given = options({ sinks: [{ step: () => new Promise(() => undefined) }], sinkTimeoutMs: 600_000 });
  const run = await train(...asCall(given));
  const result = run.result();
  setTimeout(() => run.stop(), 500);
  await expect(result).rejects.toMatchObject({ code: 'INTERRUPTED' });
});

test.each([
  [
    'a cyclic default export',
    'const a = {}; a.default = a; export default a;',
    /default of its own, and so on without end/,
  ],
  [
    'a proxy of defaults',
    'const p = new Proxy({}, { get: (_, name) => (name === "then" ? undefined : p) }); export default p;',
    /without end|no function/,
  ],
  [
    'a loop at loading',
    'await new Promise(() => {}); export default () => ({});',
    /thread ended while loading it/,
  ],
  ['an error at loading', "throw new Error('no wandb'); export default 1;", /no wandb/],
  ['a maker that throws', "export default () => { throw new Error('no key'); };", /no key/],
])('a module with %s is refused', async (_, code, message) => {
  const failed = train(...asCall(options({ sinks: [file(code)] })));
  await expect(failed).rejects.toMatchObject({ code: 'BAD_CONFIG' });
  await expect(failed).rejects.toThrow(message);
});

test('loading a module that loops ends when the run is aborted', async () => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 300);
  const failed = train(
    ...asCall(options({ sinks: [file('for (;;); export default 1;')], signal: controller.signal })),
  );
  await expect(failed).rejects.toMatchObject({ code: 'INTERRUPTED' });
});
