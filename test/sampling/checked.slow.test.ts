/** Samplers that repeat, omit or bend completions: refused at the port, in training and in evaluations. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { GenerateCallOptions, GeneratedSequence, GenerateRequest } from '../../src/engine/types';
import { exitCodeFor } from '../../src/base/errors';
import { evaluate } from '../../src/eval';
import { readMetrics } from '../../src/run';
import type { Completion, Sampler } from '../../src/sampling';
import { train, type SamplerMaker } from '../../src/train';
import { FakeEngine, FakeModel } from '../helpers/fake-engine';
import { FAKE_IDS, fakeDataset, fakeTokenizer } from '../helpers/fake-tokenizer';
import { asCall, type Given } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-sampler-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let runs = 0;

const options = (changes: Given): Given => ({
  model: 'tiny',
  out: join(root, `run-${runs++}`),
  maxSteps: 2,
  promptsPerStep: 2,
  numGenerations: 4,
  maxCompletionLength: 60,
  evalProblems: 0,
  evalSampledProblems: 0,
  engine: new FakeEngine(),
  tokenizer: fakeTokenizer,
  trainData: fakeDataset(30),
  ...changes,
});

const run = async (sampler: SamplerMaker, changes: Given = {}) =>
  (await train(...asCall(options({ sampler, ...changes })))).result();

/** A sampler around the engine's own whose completions go through `bend`. */
const bending =
  (bend: (completion: Completion, on: (bent: object | null) => void) => void): SamplerMaker =>
  ({ engineSampler }) => ({
    follow: (version) => engineSampler.follow(version),
    sample: (prompts, settings, onCompletion) =>
      engineSampler.sample(prompts, settings, (completion) =>
        bend(completion as Completion, (bent) => onCompletion(bent as Completion)),
      ),
  });

const changing = (change: (completion: Completion) => object): SamplerMaker =>
  bending((completion, on) => on({ ...completion, ...change(completion) }));

test('a sampler that hands on what the engine sampled trains the same run', async () => {
  const [own, passed, bare] = [
    await run(({ engineSampler }) => engineSampler),
    await run(changing(() => ({}))),
    // Text and counts are made from the ids.
    await run(
      bending(({ prompt, sample, ids, logprobs, entropies, finish }, on) =>
        on({ prompt, sample, ids, logprobs, entropies, finish }),
      ),
    ),
  ];
  const { directory: _, ...facts } = own.run;
  for (const other of [passed, bare]) expect(other.run).toMatchObject(facts);
});

test('written completions may have another text and other counts than their ids', async () => {
  const written = { text: '<think>a</think> b', thinkingTokens: 3, thinkingClosed: true, answerTokens: 2 };
  const seen = new Set<string>();
  await run(
    changing(() => ({ scripted: true, ...written })),
    {
      maxSteps: 1,
      reward: ({ text, thinkingTokens, answerTokens }) => {
        seen.add(`${text}, ${thinkingTokens}, ${answerTokens}`);
        return 1;
      },
    },
  );
  expect([...seen]).toEqual(['<think>a</think> b, 3, 2']);
});

/** The first step's metrics, and the entropies that the engine gave for each prompt. */
async function firstStep(given: object, changes: Given) {
  const entropies: number[][] = [];
  const sampler = bending((completion, on) => {
    (entropies[completion.prompt] ??= []).push(...completion.entropies!);
    on({ ...completion, ...given });
  });
  const out = join(root, `entropies-${runs++}`);
  await run(sampler, { maxSteps: 1, formatWeight: 0, ...changes, out });
  return { metrics: readMetrics(join(out, 'metrics.jsonl'))[0]!, entropies };
}

/** The group of the first prompt has no advantages, and is skipped. */
const firstSkipped: Given['reward'] = ({ sample }, group) => (group.prompt.index === 0 ? 1 : sample);

test.each([[null], [undefined]])('entropies of %s: the update is the same, its entropy of trained tokens', async (entropies) => {
  const known = await firstStep({}, { reward: firstSkipped });
  const unknown = await firstStep({ entropies }, { reward: firstSkipped });
  expect(known.metrics.skipped_sequences).toBe(4);
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  expect(known.metrics.entropy).toBeCloseTo(mean(known.entropies.flat()), 12);
  expect(unknown.metrics.entropy).toBeCloseTo(mean(known.entropies[1]!), 12);
  for (const name of ['loss', 'grad_norm', 'reward', 'sampling/sampling_logp_difference/mean'] as const)
    expect(unknown.metrics[name]).toBe(known.metrics[name]);
}); // prettier-ignore

test('entropies unknown and every completion skipped: the line has no entropy', async () => {
  const { metrics } = await firstStep({ entropies: null }, { reward: () => 1 });
  expect(metrics).toMatchObject({ skipped_sequences: 8, grad_norm: 0 });
  expect(metrics).not.toHaveProperty('entropy');
});

const WRONG: [string, (completion: Completion) => object, RegExp][] = [
  ['a written text of another kind', () => ({ scripted: true, text: 5 }), /its text must be a string, not 5/],
  [
    'written counts below 0',
    () => ({ scripted: true, thinkingTokens: -1 }),
    /thinkingTokens must be a whole/,
  ],
  ['written counts in parts', () => ({ scripted: true, answerTokens: 1.5 }), /answerTokens must be a whole/],
  [
    'a written count as text',
    () => ({ scripted: true, laterThinkingTokens: '3' }),
    /must be a whole number of/,
  ],
  ['a written flag', () => ({ scripted: true, thinkingClosed: 1 }), /thinkingClosed must be true or false/],
  ['log-probs one short', (c) => ({ logprobs: c.logprobs.slice(1) }), /has \d+ log-probs for \d+ ids/],
  ['log-probs one long', (c) => ({ logprobs: Float64Array.of(0, ...c.logprobs) }), /has \d+ log-probs for/],
  ['NaN', (c) => ({ logprobs: c.logprobs.map(() => NaN) }), /log-probs have NaN at token 0/],
  ['-Infinity', (c) => ({ logprobs: c.logprobs.map(() => -Infinity) }), /log-probs have -Infinity/],
  ['+5', (c) => ({ logprobs: c.logprobs.map(() => 5) }), /log-prob of token 0 is 5, and none is above 0/],
  ['no log-probs', () => ({ logprobs: undefined }), /log-probs must be a Float64Array, not undefined/],
  ['a list of log-probs', (c) => ({ logprobs: [...c.logprobs] }), /must be a Float64Array, not a list of/],
  ['float32', (c) => ({ logprobs: Float32Array.from(c.logprobs) }), /not a Float32Array of/],
  ['a list of entropies', (c) => ({ entropies: [...c.entropies!] }), /entropies must be a Float64Array/],
  ['entropies one short', (c) => ({ entropies: c.entropies!.slice(1) }), /entropies for/],
  ['entropies below 0', (c) => ({ entropies: c.entropies!.map(() => -1) }), /entropy at token 0 is -1/],
  [
    'no ids',
    () => ({ ids: new Int32Array(0), logprobs: new Float64Array(0), entropies: new Float64Array(0) }),
    /no ids/,
  ],
  ['ids cut to 3', (c) => ({ ids: c.ids.slice(0, 3) }), /log-probs for 3 ids/],
  ['ids as a list', (c) => ({ ids: [...c.ids] }), /ids must be an Int32Array, not a list/],
  ['ids as text', () => ({ ids: 'abc' }), /ids must be an Int32Array, not "abc"/],
  [
    'an id beyond the vocabulary',
    (c) => ({ ids: c.ids.map(() => 46) }),
    /id 0 is 46, and the vocabulary has 46/,
  ],
  ['a negative id', (c) => ({ ids: c.ids.map(() => -1) }), /id 0 is -1/],
  ['more ids than wanted', () => longer(61), /has 61 ids, and 60 were the most wanted/],
  ['a stop id in the middle', (c) => ({ ids: c.ids.with(1, FAKE_IDS.eos) }), /goes on after the stop id 1/],
  [
    'stop without a stop id',
    (c) => ({ ids: c.ids.with(-1, 20), finish: 'stop' }),
    /its last id 20 is no stop id/,
  ],
  ['length at a stop id', () => ({ finish: 'length' }), /finish is "length", but it ends with the stop id 1/],
  ['banana', () => ({ finish: 'banana' }), /finish must be "stop", "length" or "cancelled", not "banana"/],
  ['cancelled by nobody', () => ({ finish: 'cancelled' }), /nobody has cancelled it/],
  ['another text', () => ({ text: '\\boxed{7}' }), /text "\\\\boxed\{7\}" is not that of its ids/],
  ['a text that is none', () => ({ text: 7 }), /text 7 is not that of its ids/],
  ['thinking of -5', () => ({ thinkingTokens: -5 }), /thinkingTokens is -5, and its ids have \d+/],
  ['thinking of 1e9', () => ({ thinkingTokens: 1e9 }), /thinkingTokens is 1000000000/],
  ['thinking left open', (c) => ({ thinkingClosed: !c.thinkingClosed }), /thinkingClosed is/],
  ['an answer of NaN tokens', () => ({ answerTokens: NaN }), /answerTokens is NaN/],
  ['prompt 999', () => ({ prompt: 999 }), /completion of prompt 999; it was asked for prompts 0 to 1/],
  ['prompt -1', () => ({ prompt: -1 }), /completion of prompt -1/],
  ['prompt "0"', () => ({ prompt: '0' }), /completion of prompt "0"/],
  ['sample 4 of 4', () => ({ sample: 4 }), /gave sample 4 where 4 samples/],
  ['sample 0.5', () => ({ sample: 0.5 }), /gave sample 0.5/],
  ['all of sample 1', () => ({ sample: 1 }), /gave sample 1 of prompt \d+ \(problem \d+\) twice/],
  ['another prompt of the batch', () => ({ prompt: 0 }), /twice/],
];

function longer(count: number) {
  const [ids, numbers] = [new Int32Array(count).fill(20), new Float64Array(count)];
  return { ids, logprobs: numbers, entropies: numbers, finish: 'length' };
}

test.each(WRONG)('%s: SAMPLER_FAILED names the completion and the fault', async (_, change, message) => {
  const failed = run(changing(change));
  await expect(failed).rejects.toMatchObject({ code: 'SAMPLER_FAILED' });
  await expect(failed).rejects.toThrow(message);
});

test.each<[string, SamplerMaker, RegExp]>([
  ['repeats', bending((c, on) => (on(c), on(c))), /sample \d of prompt \d \(problem \d+\) twice/],
  ['omits', bending((c, on) => void (c.sample !== 2 && on(c))), /ended without sample 2 of prompt \d/],
  ['gives null', bending((_, on) => on(null)), /gave null instead of a completion/],
  [
    'gives nothing',
    () => ({ follow: async () => undefined, sample: async () => undefined as never }),
    /ended without/,
  ],
  [
    'throws',
    () =>
      broken(() => {
        throw new Error('no server');
      }),
    /^The sampler failed: no server$/,
  ],
  ['rejects', () => broken(() => Promise.reject(new Error('no server'))), /^The sampler failed: no server$/],
  [
    'swallows the fault',
    bending((c, on) => {
      try {
        on({ ...c, sample: 9 });
      } catch {
        on(c);
      }
    }),
    /gave sample 9/,
  ],
])('a sampler that %s', async (_, sampler, message) => {
  const failed = run(sampler);
  await expect(failed).rejects.toMatchObject({ code: 'SAMPLER_FAILED' });
  await expect(failed).rejects.toThrow(message);
});

const broken = (sample: () => Promise<never>): Sampler => ({ follow: async () => undefined, sample });

test('the cause is kept; a failure to follow the weights, and statistics that are none', async () => {
  const cause = new Error('down');
  await expect(run(() => broken(() => Promise.reject(cause)))).rejects.toMatchObject({ cause });
  const follow = () => Promise.reject(new Error('no adapter'));
  await expect(run(() => ({ ...broken(() => Promise.reject(cause)), follow }))).rejects.toThrow(
    'The sampler failed to follow the weights: no adapter',
  );
  const silent: SamplerMaker = ({ engineSampler }) => ({
    follow: async () => undefined,
    sample: async (...given) => void (await engineSampler.sample(...given)) as never,
  });
  await expect(run(silent)).rejects.toThrow('resolved to undefined, not to statistics with newTokens');
});

/** A sampler around the engine's own with some methods of its own. */
const withMethods =
  (methods: Partial<Sampler>): SamplerMaker =>
  ({ engineSampler }) => ({
    follow: (version) => engineSampler.follow(version),
    sample: (...given) => engineSampler.sample(...given),
    ...methods,
  });

test('a sampler is opened once before it samples, and disposed once at the end', async () => {
  const calls: string[] = [];
  const noted = (name: string, signal?: AbortSignal) => {
    calls.push(signal === undefined ? name : `${name} with a signal`);
    return Promise.resolve();
  };
  await run(
    withMethods({
      open: (signal) => noted('open', signal),
      follow: (version, signal) => noted(`follow ${version}`, signal),
      dispose: () => noted('dispose'),
    }),
  );
  expect(calls).toEqual([
    'open with a signal',
    'follow 0 with a signal',
    'follow 1 with a signal',
    'dispose',
  ]);
});

const coded = (code: string) => Object.assign(new Error(`no ${code}`), { code });

test('what a sampler cannot open ends the run before it begins, and is disposed', async () => {
  let disposed = 0;
  const failing = (error: Error) => {
    const open = () => Promise.reject(error);
    return run(withMethods({ open, dispose: async () => void disposed++ }));
  };
  const cause = new Error('no key');
  await expect(failing(cause)).rejects.toMatchObject({
    ...{ code: 'SAMPLER_FAILED', message: 'The sampler failed to open: no key', cause },
  });
  for (const code of ['BAD_CONFIG', 'BAD_INPUT', 'SAMPLER_FAILED', 'SAMPLER_LOST', 'INTERRUPTED'])
    await expect(failing(coded(code))).rejects.toMatchObject({ code, message: `no ${code}` });
  expect(disposed).toBe(6);
});

test.each(['SAMPLER_FAILED', 'SAMPLER_LOST'])('%s of a sampler keeps its sentence', async (code) => {
  const fails = () => Promise.reject(coded(code));
  for (const failing of [{ sample: fails }, { follow: fails }]) {
    const failed = run(withMethods(failing));
    await expect(failed).rejects.toMatchObject({ code });
    await expect(failed).rejects.toThrow(new RegExp(`^no ${code}`));
  }
});

test('a lost sampler says how to go on, and exits with 75', async () => {
  const lost = await run(withMethods({ sample: () => Promise.reject(coded('SAMPLER_LOST')) })).catch(
    (error: unknown) => error,
  );
  expect((lost as Error).message).toMatch(
    /The run ended after step 0; once a server can be reached: acoer train --resume /,
  );
  expect(exitCodeFor(lost)).toBe(75);
});

test('a sampler that cannot close is a warning', async () => {
  const warnings: string[] = [];
  const onEvent: Given['onEvent'] = (event) =>
    void (event.type === 'warning' && warnings.push(event.message));
  await run(withMethods({ dispose: () => Promise.reject(new Error('gone')) }), { onEvent });
  expect(warnings).toContain('The sampler failed to close: gone');
});

test('requests that were made again are counted', async () => {
  const retrying = (retries: unknown): SamplerMaker => {
    return ({ engineSampler }) => ({
      follow: () => Promise.resolve(),
      sample: async (...given) => ({ ...(await engineSampler.sample(...given)), retries: retries as number }),
    });
  };
  const out = join(root, 'retries');
  await run(retrying(3), { out });
  expect(readMetrics(join(out, 'metrics.jsonl')).map((line) => line['sampling/retries'])).toEqual([3, 3]);
  for (const wrong of [-1, 0.5, '3'])
    await expect(run(retrying(wrong))).rejects.toThrow(/as retries, which must be a number of requests/);
});

test('tokens of speculation that are no numbers are refused', async () => {
  const counting = (acceptedTokens: unknown): SamplerMaker => {
    return ({ engineSampler }) => ({
      follow: () => Promise.resolve(),
      sample: async (...given) => {
        const { newTokens } = await engineSampler.sample(...given);
        return { newTokens, proposedTokens: 9, acceptedTokens: acceptedTokens as number };
      },
    });
  };
  const out = join(root, 'speculation');
  await run(counting(3), { out, numSpeculativeTokens: 4 });
  expect(readMetrics(join(out, 'metrics.jsonl'))[0]).toMatchObject({
    'sampling/speculation/proposed': 9,
    'sampling/speculation/accepted': 3,
  });
  await expect(run(counting(0.5))).rejects.toThrow(
    /0\.5 as acceptedTokens, which must be a number of tokens/,
  );
});

test('methods that are none are refused', async () => {
  const failed = run(withMethods({ open: 5 as never }));
  await expect(failed).rejects.toThrow('what sampler() returns.open must be a function, not 5');
});

test('reports of progress that name no prompt of the batch are refused', async () => {
  const reporting: SamplerMaker = ({ engineSampler }) => ({
    follow: async () => undefined,
    sample(prompts, settings, onCompletion) {
      settings.onProgress?.({ promptTokens: 1, inFlight: [{ prompt: 7, sample: 0, tokens: 1 }] });
      return engineSampler.sample(prompts, settings, onCompletion);
    },
  });
  await expect(run(reporting)).rejects.toMatchObject({ code: 'SAMPLER_FAILED' });
});

test('a sampler that never answers does not keep an aborted run, or one that is stopped, from ending', async () => {
  const never: SamplerMaker = () => broken(() => new Promise(() => undefined));
  const controller = new AbortController();
  const aborted = run(never, { signal: controller.signal });
  setTimeout(() => controller.abort(), 50);
  await expect(aborted).rejects.toMatchObject({ code: 'INTERRUPTED' });
  const stopped = await train(...asCall(options({ sampler: never })));
  const result = stopped.result();
  setTimeout(() => stopped.stop(), 50);
  await expect(result).rejects.toMatchObject({ code: 'INTERRUPTED' });
});

test('completions that come after the end are ignored', async () => {
  let late: (() => void) | undefined;
  const sampler: SamplerMaker = ({ engineSampler }) => ({
    follow: async () => undefined,
    sample: (prompts, settings, on) =>
      engineSampler.sample(prompts, settings, (completion) => {
        on(completion);
        late = () => on(completion);
      }),
  });
  await run(sampler);
  expect(late).not.toThrow();
});

/** A model whose generation gives its sequences through `bend`. */
class BentModel extends FakeModel {
  constructor(private readonly bend: (sequence: GeneratedSequence, on: (bent: object) => void) => void) {
    super({});
  }

  override generate(requests: readonly GenerateRequest[], given: GenerateCallOptions = {}) {
    const onSequence = (sequence: GeneratedSequence) =>
      this.bend(sequence, (bent) => given.onSequence!(bent as GeneratedSequence));
    return super.generate(requests, { ...given, onSequence });
  }
}

test.each<[string, (sequence: GeneratedSequence, on: (bent: object) => void) => void, RegExp]>([
  ['repeats', (s, on) => (on(s), on(s)), /sample 0 of problem \d \(\d\) twice/],
  ['omits', (s, on) => void (s.request !== 1 && on(s)), /ended without sample 0 of problem 1 \(1\)/],
  ['bends', (s, on) => on({ ...s, logprobs: s.logprobs.slice(1) }), /log-probs for \d+ ids/],
])('an evaluation by an engine that %s a completion', async (_, bend, message) => {
  const failed = evaluate({
    model: new BentModel(bend),
    policy: null,
    tokenizer: fakeTokenizer,
    dataset: fakeDataset(4),
    n: 4,
    sampling: 'greedy',
    maxNewTokens: 60,
    promptTemplate: '{problem}',
  });
  await expect(failed).rejects.toMatchObject({ code: 'SAMPLER_FAILED' });
  await expect(failed).rejects.toThrow(message);
});
