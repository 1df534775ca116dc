/**
 * Sampling on servers. The reference is the same run with the engine's own sampler under the seeds that servers get:
 * whatever goes wrong on the way, the run through servers is equal to it to the last bit, or ends in one sentence.
 */
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packSequences } from '../../src/base/packing';
import { streamSeed } from '../../src/base/rng';
import { createEngine } from '../../src/engine/engine';
import { resolveModel } from '../../src/models';
import type { SampledCompletion } from '../../src/sampling';
import { serverSeed } from '../../src/samplers/vllm/wire';
import { train, type SamplerMaker, type TrainEvent, type TrainSettings } from '../../src/train';
import { type Bend, bent, BentServer, type Reply } from '../helpers/bent-server';
import { acoer, ended, spawnAcoer } from '../helpers/cli';
import { metricsOf } from '../helpers/fake-run';

const root = realpathSync(mkdtempSync(join(tmpdir(), 'acoer-served-')));
const stateHome = process.env.XDG_STATE_HOME;
let server: BentServer;
beforeAll(async () => {
  process.env.XDG_STATE_HOME = join(root, 'state');
  server = await BentServer.start('tiny', root);
}, 60_000);
afterEach(() => {
  server.bend = null;
  server.asked.length = 0;
});
afterAll(async () => {
  await server.stop();
  rmSync(root, { recursive: true, force: true });
  if (stateHome === undefined) delete process.env.XDG_STATE_HOME;
  else process.env.XDG_STATE_HOME = stateHome;
});

const SETTINGS: TrainSettings = {
  preset: 'tiny',
  maxSteps: 3,
  promptsPerStep: 2,
  numGenerations: 4,
  maxCompletionLength: 24,
  learningRate: 5e-3,
  warmupRatio: 0,
  evalProblems: 0,
  evalSampledProblems: 0,
  saveSteps: 0,
  threads: 1,
};

/** Samples with the engine what servers are asked for. */
const underServerSeeds: SamplerMaker = ({ engineSampler }) => ({
  reportsProgress: true,
  follow: async () => undefined,
  sample(prompts, settings, onCompletion) {
    const places = prompts.flatMap(({ firstSample, numSamples }, prompt) =>
      Array.from({ length: numSamples }, (_, i) => ({ prompt, sample: firstSample + i })),
    );
    const single = places.map(({ prompt, sample }) => {
      const { seed, ...of } = prompts[prompt]!;
      return {
        ...of,
        firstSample: 0,
        numSamples: 1,
        seed: streamSeed(serverSeed(seed, sample), 'generate', 0),
      };
    });
    const take = ({ prompt, ...completion }: SampledCompletion) =>
      onCompletion({ ...completion, ...places[prompt]!, entropies: null });
    return engineSampler.sample(single, { ...settings, onProgress: undefined }, take);
  },
});

let runs = 0;
interface Ran {
  out: string;
  events: TrainEvent[];
  metrics: Record<string, number>[];
  weights: Buffer;
}

async function run(
  settings: TrainSettings,
  {
    onEvent: told,
    ...options
  }: { sampler?: SamplerMaker; out?: string; onEvent?: (event: TrainEvent) => void } = {},
): Promise<Ran> {
  const events: TrainEvent[] = [];
  const out = options.out ?? join(root, `run-${runs++}`);
  const onEvent = (event: TrainEvent) => {
    events.push(event);
    told?.(event);
  };
  await (await train({ ...SETTINGS, ...settings }, { ...options, out, onEvent })).result();
  const weights = readFileSync(join(out, 'final', 'adapter_model.safetensors'));
  return { out, events, metrics: metricsOf(out) as Record<string, number>[], weights };
}

const served = (more: object = {}, servers = [server.url]): TrainSettings => ({
  sampler: { type: 'vllm', servers, ...more },
});

const warnings = ({ events }: Pick<Ran, 'events'>): string[] =>
  events.flatMap((event) => (event.type === 'warning' ? [event.message] : []));

/** Numbers of a run that do not depend on when and where it was made. */
const numbersOf = ({ metrics }: Ran) =>
  metrics.map((line) =>
    Object.fromEntries(Object.entries(line).filter(([name]) => !/time|memory|retries/.test(name))),
  );

let reference: Ran;
beforeAll(async () => {
  const correction = {
    importanceSamplingCorrection: 'token_truncate',
    importanceSamplingClipMax: 2,
  } as const;
  reference = await run(correction, { sampler: underServerSeeds });
}, 60_000);

function expectEqual(ran: Ran): void {
  expect(numbersOf(ran)).toEqual(numbersOf(reference));
  expect(ran.weights.equals(reference.weights)).toBe(true);
}

test('a run through acoer serve is that of the own sampler, to the last bit', async () => {
  const ran = await run(served());
  expectEqual(ran);
  expect(warnings(ran)).toEqual([]);
  for (const line of ran.metrics) expect(line['sampling/mismatch_kl']).toBeLessThan(1e-9);
  // Nothing is left on the server or in the run's folder.
  expect(server.adapters).toEqual([]);
  expect(readdirSync(ran.out)).not.toContain('sampler');
  const told = ran.events.flatMap((event) => (event.type === 'sampler' ? [event.message] : []));
  expect(told).toEqual([
    expect.stringMatching(
      /^http:\S+: log-probs 0\.0000 nats from the trainer's on average, 99% of 96 within/,
    ),
  ]);
}, 60_000);

test('each completion is one request with every field, under the adapter of its step', async () => {
  await run({ ...served(), temperature: 0.7 });
  const asked = server.completions.filter(({ body }) => !String(body['model']).endsWith('probe'));
  expect(asked).toHaveLength(3 * 8);
  const names = [...new Set(asked.map(({ body }) => body['model'] as string))];
  expect(names).toHaveLength(3);
  for (const name of names) expect(name).toMatch(/^acoer-[0-9a-f]{8}-v\d+$/);
  expect(new Set(asked.map(({ body }) => body['seed'])).size).toBe(24);
  expect(asked[0]!.body).toMatchObject({
    ...{ n: 1, temperature: 0.7, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1, max_tokens: 24 },
    ...{ ignore_eos: true, logprobs: 0, return_token_ids: true, stream: false, cache_salt: names[0] },
  });
}, 60_000);

/** Bends the first `times` requests to `path` for which `which` holds. */
const first =
  (
    path: string,
    times: number,
    bend: Bend,
    which: (body: Record<string, unknown>) => boolean = () => true,
  ): Bend =>
  (asked, real) => {
    const meant = asked.path === path && which(asked.body) && times-- > 0;
    return meant ? bend(asked, real) : real();
  };

const status =
  (code: number, text = '{"error":{"message":"later"}}', headers?: Record<string, string>): Bend =>
  async (): Promise<Reply> => ({ status: code, text, ...(headers && { headers }) });

type Json = { choices: [Record<string, unknown>]; usage: Record<string, number>; model: string };
const changed =
  (change: (json: Json) => void): Bend =>
  (_, real) =>
    bent(real(), change as never);

const ofRun = (body: Record<string, unknown>) => /-v\d+$/.test(String(body['model'] ?? body['lora_name']));
const COMPLETE = '/v1/completions';
const LOAD = '/v1/load_lora_adapter';
const logprobs = ({ choices }: Json) => choices[0]['logprobs'] as { token_logprobs: (number | null)[] };

const PASSING: [string, () => Bend][] = [
  ['a connection that is cut', () => first(COMPLETE, 2, async () => null, ofRun)],
  ['one that is cut after the work', () => first(COMPLETE, 2, async (_, real) => (await real(), null), ofRun)],
  ['500', () => first(COMPLETE, 2, status(500), ofRun)],
  ['503 with Retry-After', () => first(COMPLETE, 1, status(503, '', { 'Retry-After': '1' }), ofRun)],
  ['429', () => first(COMPLETE, 3, status(429, '{}', { 'Retry-After': '0' }), ofRun)],
  ['half an answer', () => first(COMPLETE, 1, async (_, real) => {
    const { text, ...reply } = await real();
    return { ...reply, text: text.slice(0, 60) };
  }, ofRun)],
  ['an id beyond the vocabulary', () => first(COMPLETE, 1, changed(({ choices }) => (choices[0]['token_ids'] = [1e6])), ofRun)],
  ['a log-prob of -9999', () => first(COMPLETE, 1, changed((json) => (logprobs(json).token_logprobs[0] = -9999)), ofRun)],
  ['a log-prob of null', () => first(COMPLETE, 1, changed((json) => (logprobs(json).token_logprobs[0] = null)), ofRun)],
  ['a log-prob too few', () => first(COMPLETE, 1, changed((json) => void logprobs(json).token_logprobs.pop()), ofRun)],
  ['another prompt', () => first(COMPLETE, 1, changed(({ choices }) => (choices[0]['prompt_token_ids'] = [5])), ofRun)],
  ['a finish of abort', () => first(COMPLETE, 1, changed(({ choices }) => (choices[0]['finish_reason'] = 'abort')), ofRun)],
  ['another model', () => first(COMPLETE, 1, changed((json) => (json.model = 'base')), ofRun)],
  ['usage that does not agree', () => first(COMPLETE, 1, changed((json) => (json.usage['completion_tokens'] = 1)), ofRun)],
  ['500 at loading', () => first(LOAD, 1, status(500), ofRun)],
  ['a folder that is seen late', () => first(LOAD, 2, status(404, '{"error":{"message":"No adapter found"}}'), ofRun)],
  ['a loading whose answer is lost', () => first(LOAD, 1, async (_, real) => (await real(), null), ofRun)],
]; // prettier-ignore

test.each(PASSING)(
  '%s: the run is equal',
  async (_, bend) => {
    server.bend = bend();
    expectEqual(await run(served()));
  },
  60_000,
);

test('a server that is started again: proved again, the adapter loaded again, the run equal', async () => {
  let completions = 0;
  server.bend = async ({ path, body }, real) => {
    if (path === COMPLETE && ofRun(body) && ++completions === 12) await server.forget();
    return real();
  };
  const ran = await run(served());
  expectEqual(ran);
  expect(warnings(ran)).toEqual([expect.stringMatching(/has lost its adapters: it was started again/)]);
  expect(ran.events.filter(({ type }) => type === 'sampler')).toHaveLength(2);
}, 60_000);

test('two servers, of which one is lost', async () => {
  const other = await BentServer.start('tiny', root);
  let completions = 0;
  other.bend = async ({ path, body }, real) => {
    if (path === COMPLETE && ofRun(body) && ++completions === 2) void other.down();
    return real();
  };
  const ran = await run(served({}, [server.url, other.url]));
  expectEqual(ran);
  expect(other.completions.length).toBeGreaterThan(4);
  expect(ran.metrics.some((line) => line['sampling/retries']! > 0)).toBe(true);
  await other.stop();
}, 60_000);

test('a server that goes and comes back: told once each, the run equal', async () => {
  let completions = 0;
  server.bend = async ({ path, body }, real) => {
    if (path === COMPLETE && ofRun(body) && ++completions === 10) await server.down();
    return real();
  };
  let back: Promise<void> | undefined;
  const onEvent = (event: TrainEvent) => {
    if (event.type === 'warning' && /does not answer/.test(event.message)) back ??= server.up();
  };
  const ran = await run(served(), { onEvent });
  await back;
  expectEqual(ran);
  expect(warnings(ran)).toEqual([
    expect.stringMatching(/^The sampler http:\S+ does not answer \(.*\); it is asked again\.$/),
    expect.stringMatching(/^The sampler http:\S+ answers again\.$/),
  ]);
}, 60_000);

test('a server of another model is refused, and no folder is left', async () => {
  const folder = join(root, 'other-model');
  const { directory } = await resolveModel('tiny');
  cpSync(directory, folder, { recursive: true });
  const path = join(folder, 'model.safetensors');
  const bytes = readFileSync(path);
  // Every fiftieth weight has the other sign.
  for (let at = 8 + Number(bytes.readBigUInt64LE()) + 3; at < bytes.length; at += 200) bytes[at]! ^= 0x80;
  writeFileSync(path, bytes);
  const other = await BentServer.start(folder, root);
  try {
    const error = await failing(served({}, [other.url]));
    expect(error).toMatchObject({
      code: 'BAD_CONFIG',
      message: expect.stringMatching(
        /nats a token from those of the trainer .* it has other weights than tiny/,
      ) as string,
    });
    expect(existsSync(join(root, `run-${runs - 1}`))).toBe(false);
  } finally {
    await other.stop();
  }
}, 60_000);

const failing = (settings: TrainSettings) =>
  run(settings).then(
    () => 'it ran',
    (error: Error) => error,
  );

test.each<[string, Bend, string, RegExp]>([
  [
    'wrong ids again and again',
    first(COMPLETE, 99, changed(({ choices }) => (choices[0]['token_ids'] = [-1])), ofRun),
    'SAMPLER_FAILED',
    /^The sampler failed: http:\S+, sample \d of prompt \d of the batch: a wrong completion: it has the token id -1, and the vocabulary has \d+ tokens\./,
  ],
  ['a refusal', first(COMPLETE, 99, status(400, '{"message":"max_tokens is too large"}'), ofRun), 'SAMPLER_FAILED', /it answered 400: max_tokens is too large/],
  ['no key', status(401, '{"error":"Unauthorized"}'), 'BAD_CONFIG', /Unauthorized; its key goes into the environment variable ACOER_SAMPLER_KEY/],
  ['no adapters', first(LOAD, 99, status(404, '{"detail":"Not Found"}')), 'BAD_CONFIG', /start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True/],
  ['something else', status(200, '<html>'), 'BAD_CONFIG', /lists no model: is it a server of vLLM\?/],
  [
    'a short context',
    first('/v1/models', 99, async () => ({ status: 200, text: JSON.stringify({ data: [{ id: 'm', max_model_len: 30 }] }) })),
    'BAD_CONFIG',
    /its max_model_len is 30, too short for prompts of \d+ tokens and maxCompletionLength 24/,
  ],
  [
    'log-probs before the temperature',
    (asked, real) => (asked.path === COMPLETE ? raw(asked.body, real) : real()),
    'BAD_CONFIG',
    /its log-probs are those before the temperature of 0.5: start it with --logprobs-mode processed_logprobs/,
  ],
  [
    'an adapter that is not applied',
    (asked, real) => (asked.path === COMPLETE ? baseInstead(asked.body, real) : real()),
    'BAD_CONFIG',
    /its log-probs are those of the base model, although it has taken the adapter/,
  ],
  [
    'other weights',
    (asked, real) => (asked.path === COMPLETE ? changed((json) => {
      const list = logprobs(json).token_logprobs;
      list.forEach((value, i) => (list[i] = value! - 0.2 * (i % 3)));
    })(asked, real) : real()),
    'BAD_CONFIG',
    /its log-probs are 0\.\d+ nats a token from those of the trainer on average, and at most 0\.050 are accepted/,
  ],
])('%s: one sentence', async (_, bend, code, message) => {
  server.bend = bend;
  const error = await failing({ ...served(), temperature: 0.5 });
  expect(error).toMatchObject({ code, message: expect.stringMatching(message) as string });
}, 60_000); // prettier-ignore

/** As vLLM answers by default: the log-probs are those at temperature 1 of what was drawn at another. */
async function raw(body: Record<string, unknown>, real: (body?: object) => Promise<Reply>): Promise<Reply> {
  const drawn = JSON.parse((await real()).text) as Json;
  const ids = drawn.choices[0]['token_ids'] as number[];
  const loaded = server.asked.find(
    ({ path, body: { lora_name: name } }) => path === LOAD && name === body['model'],
  );
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  const model = await engine.loadModel((await resolveModel('tiny')).directory);
  const policy = await model.loadAdapter(loaded!.body['lora_path'] as string);
  const text = {
    promptIds: Int32Array.from(body['prompt'] as number[]),
    completionIds: Int32Array.from(ids),
  };
  const scored = await model.score(packSequences([text]), { policy });
  logprobs(drawn).token_logprobs = [...scored.logprobs];
  return { status: 200, text: JSON.stringify(drawn) };
}

async function baseInstead(
  body: Record<string, unknown>,
  real: (body?: object) => Promise<Reply>,
): Promise<Reply> {
  return bent(real({ ...body, model: 'base' }), (json) => Object.assign(json, { model: body['model'] }));
}

test('a server that cannot be reached, and one that is lost for good', async () => {
  const nobody = await failing(served({ patienceSeconds: 1 }, ['http://127.0.0.1:9']));
  expect(nobody).toMatchObject({
    code: 'SAMPLER_LOST',
    message: expect.stringMatching(/has answered for 1s \(http:\/\/127.0.0.1:9: .*ECONNREFUSED/) as string,
  });
  expect(existsSync(join(root, `run-${runs - 1}`))).toBe(false);
  let completions = 0;
  server.bend = async ({ path, body }, real) =>
    path === COMPLETE && ofRun(body) && ++completions > 9 ? null : real();
  const out = join(root, 'lost');
  const lost = run(served({ patienceSeconds: 1 }), { out });
  await expect(lost).rejects.toMatchObject({ code: 'SAMPLER_LOST' });
  // What was learnt is kept, and the run goes on from there.
  server.bend = null;
  const resumed = await train({}, { resume: out });
  await resumed.result();
  expect(readFileSync(join(out, 'final', 'adapter_model.safetensors')).equals(reference.weights)).toBe(true);
}, 120_000);

test('the key is sent, and kept nowhere', async () => {
  process.env.ACOER_SAMPLER_KEY = 'a-secret-of-the-test';
  try {
    const { out } = await run(served());
    expect(new Set(server.asked.map(({ key }) => key))).toEqual(new Set(['Bearer a-secret-of-the-test']));
    expect(readFileSync(join(out, 'config.json'), 'utf8')).not.toContain('a-secret');
  } finally {
    delete process.env.ACOER_SAMPLER_KEY;
  }
}, 60_000);

test('a server with one seed for all is noticed', async () => {
  server.bend = (asked, real) => (asked.path === COMPLETE ? real({ ...asked.body, seed: 7 }) : real());
  const ran = await run({ ...served(), maxCompletionLength: 80, maxSteps: 1 });
  expect(warnings(ran)).toEqual([
    expect.stringMatching(/Two completions of one prompt are equal in all of their \d+ tokens/),
  ]);
}, 60_000);

test('a run that is stopped while servers sample ends at once, and goes on equal', async () => {
  let answers = 0;
  server.bend = async ({ path, body }, real) => {
    if (path === COMPLETE && ofRun(body) && ++answers > 10) await new Promise(() => undefined);
    return real();
  };
  const out = join(root, 'stopped');
  const begun = await train({ ...SETTINGS, ...served() }, { out });
  const result = begun.result();
  setTimeout(() => begun.stop(), 1_000);
  await expect(result).rejects.toMatchObject({ code: 'INTERRUPTED' });
  server.bend = null;
  await (await train({}, { resume: out })).result();
  expect(readFileSync(join(out, 'final', 'adapter_model.safetensors')).equals(reference.weights)).toBe(true);
}, 60_000);

test('servers that only the folder of a run names are asked once the user says so', async () => {
  const { out } = await run(served());
  process.env.XDG_STATE_HOME = join(root, 'another-user');
  try {
    const more = { maxSteps: 4 };
    await expect(train(more, { resume: out })).rejects.toThrow(
      /names the server http:\S+, to which the prompts of the run would be sent .* then give --trust/,
    );
    await (await train(more, { resume: out, trust: true })).result();
  } finally {
    process.env.XDG_STATE_HOME = join(root, 'state');
  }
}, 60_000);

describe('acoer train --sampler-url', () => {
  const words = Object.entries({ ...SETTINGS, maxSteps: 1 }).flatMap(([name, value]) => [
    ...(name === 'preset' ? ['--preset', String(value)] : ['--set', `${name}=${String(value)}`]),
  ]);
  const ask = (url: string, ...more: string[]) => {
    // Ranks are started by the program of a process.
    const run = more[0] === '--nproc' ? async (...all: string[]) => ended(spawnAcoer(...all)) : acoer;
    const out = join(root, `cli-${runs++}`);
    return run('train', ...words, '--sampler-url', url, '--out', out, ...more).then((ran) => ({
      ...ran,
      out,
    }));
  };

  test('trains', async () => {
    const { code, stderr } = await ask(server.url);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stderr).toMatch(/^sampler {4}http:\S+: log-probs 0\.0000 nats from the trainer's on average/m);
  }, 60_000);

  test('without a server it ends with 75 and leaves no folder', async () => {
    const { code, stderr, out } = await ask('http://127.0.0.1:9', '--set', 'sampler.patienceSeconds=0.5');
    expect({ code, stderr }).toMatchObject({ code: 75 });
    expect(stderr).toMatch(
      /^acoer: No server of the sampler's has answered for 1s \(http:\S+: .*ECONNREFUSED[^)]*\)\.$/m,
    );
    expect(existsSync(out)).toBe(false);
  }, 60_000);

  test.each([
    [['--set', 'topP=0.9'], /topP: is 0\.9, but servers give log-probs over the tokens that it leaves/],
    [['--full'], /full: trains all weights, but servers follow a run by LoRA adapters only/],
    [['--nproc', '2'], /Servers sample for a run of one process: leave out --nproc/],
  ])(
    '%s is refused',
    async (more, message) => {
      const { code, stderr, out } = await ask(server.url, ...more);
      expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringMatching(message) as string });
      expect(existsSync(out)).toBe(false);
    },
    60_000,
  );
});

test('a run that the engine has begun goes on with servers, and is told what was not weighed', async () => {
  const out = join(root, 'begun');
  const begun = await train({ ...SETTINGS }, { out });
  await begun.next();
  await begun.return();
  const events: TrainEvent[] = [];
  await (await train(served(), { resume: out, onEvent: (event) => void events.push(event) })).result();
  expect(warnings({ events })).toEqual([
    expect.stringMatching(/changed on resuming: sampler/),
    expect.stringMatching(
      /importanceSamplingCorrection is null: the servers' log-probs are trained on as if/,
    ),
  ]);
}, 60_000);
