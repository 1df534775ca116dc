/** Misuse of the raw boundary: each case gives a code and one sentence, and the engine works on. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { ErrorCodeName, ModelId, NativeEngine, PolicyId } from '../../src/engine/binding';
import { loadAddon } from '../../src/engine/binding';
import { createEngine } from '../../src/engine/engine';
import { type Engine, type Model, TARGET_MODULES } from '../../src/engine/types';
import { openModelFiles, type ModelFiles } from '../../src/models';
import { ADAMW, failureOf, nativeRequest, request, sequences } from '../helpers/engine-calls';
import { randomModel } from '../helpers/random-model';

let native: NativeEngine;
let model: ModelId;
let otherModel: ModelId;
let policy: PolicyId;
let otherPolicy: PolicyId;
let files: ModelFiles;
const directory = randomModel();

/** loadModel's arguments; `changes` go over them, `tensor` over the first tensor of the weights. */
function load(changes: object = {}, tensor: object = {}): Parameters<NativeEngine['loadModel']>[0] {
  const { spec } = files;
  const { files: opened, tensors } = files.weights;
  const weights = { files: opened, tensors: [{ ...tensors[0]!, ...tensor }, ...tensors.slice(1)] };
  return { spec, weights, dtype: 'float32', quantization: null, job: 1, ...changes };
}

const lora = (changes: object = {}): Parameters<NativeEngine['createPolicy']>[0] => ({
  model,
  kind: 'lora',
  rank: 2,
  alpha: 4,
  rslora: false,
  dropout: 0,
  targets: [...TARGET_MODULES],
  matrices: [],
  seed: 1n,
  ...ADAMW,
  ...changes,
});

beforeAll(async () => {
  native = new (loadAddon().Engine)({ device: 'cpu', threads: 1 });
  files = await openModelFiles(directory);
  ({ model } = await native.loadModel(load()));
  ({ model: otherModel } = await native.loadModel(load()));
  ({ policy } = await native.createPolicy(lora()));
  ({ policy: otherPolicy } = await native.createPolicy(lora({ model: otherModel })));
});
afterAll(async () => {
  await native.dispose();
  await files[Symbol.asyncDispose]();
});

/** The engine after a case: still right. */
async function stillWorks(): Promise<void> {
  expect(
    (await native.score({ ...sequences(), model, policy, temperature: 1, job: 1 })).logprobs.length,
  ).toBe(8);
}

/** Calls with arguments TypeScript would refuse. */
type Call = (
  engine: Record<keyof NativeEngine, (...args: unknown[]) => Promise<unknown>>,
) => Promise<unknown>;
type Case = [name: string, code: ErrorCodeName, sentence: RegExp, call: Call];

const generate =
  (changes: object, args: object = {}, onSequence: unknown = () => {}, onProgress?: unknown): Call =>
  (engine) =>
    engine.generate(
      {
        model,
        requests: [nativeRequest(changes)],
        maxSlots: 4,
        kvBytes: 0,
        kvCacheDtype: 'auto',
        numSpeculativeTokens: 0,
        job: 1,
        ...args,
      },
      onSequence,
      onProgress,
    );
const score =
  (changes: object): Call =>
  (engine) =>
    engine.score({ ...sequences(), model, policy: null, temperature: 1, job: 1, ...changes });
const forward =
  (changes: object): Call =>
  (engine) =>
    engine.forward({ ...sequences(), policy, temperature: 1, dropoutSeed: null, job: 1, ...changes });
/** After a forward pass over 8 completion tokens, unless `of` is null. */
const backward =
  (dLogprobs: unknown, of: object | null = {}): Call =>
  async (engine) => {
    if (of === null) await engine.zeroGradients({ policy });
    else await forward(of)(engine);
    return engine.backward({ policy, dLogprobs, job: 1 });
  };
const step =
  (changes: object): Call =>
  (engine) =>
    engine.step({ policy, learningRate: 1e-3, weightDecay: 0, maxGradNorm: 0, ...changes });
const create =
  (changes: object): Call =>
  (engine) =>
    engine.createPolicy(lora(changes));

const CASES: Case[] = [
  ['no arguments', 'BAD_ARGUMENT', /args must be an object/, (engine) => engine.loadModel()],
  ['null', 'BAD_ARGUMENT', /args must be an object/, (engine) => engine.score(null)],
  ['a missing field', 'BAD_ARGUMENT', /args.policy must be a number/, (engine) => engine.zeroGradients({})],

  ['no spec', 'BAD_ARGUMENT', /args.spec must be an object/, (engine) => engine.loadModel(load({ spec: null }))],
  ['no weights', 'BAD_ARGUMENT', /args.weights must be an object/, (engine) => engine.loadModel(load({ weights: 'x' }))],
  ['an unknown dtype', 'BAD_ARGUMENT', /one of float32, bfloat16, float64/, (engine) => engine.loadModel(load({ dtype: 'int8' }))],
  ['no dtype', 'BAD_ARGUMENT', /args.dtype must be a string/, (engine) => engine.loadModel(load({ dtype: null }))],
  ...(
    [
      ['no heads', { numHeads: 0 }],
      ['heads that the key heads do not divide', { numHeads: 3 }],
      ['an odd head', { headDim: 15 }],
      ['a size beyond any', { hiddenSize: 2 ** 31 + 1 }],
      ['sizes whose product overflows', { numHeads: 2 ** 31, headDim: 2 ** 31 }],
      ['no theta', { ropeTheta: 0 }],
    ] as const
  ).map(
    ([name, changes]): Case => [
      name,
      'BAD_ARGUMENT',
      /the model's spec is inconsistent or out of range/,
      (engine) => engine.loadModel(load({ spec: { ...files.spec, ...changes } })),
    ],
  ),
  ['a size that is no whole number', 'BAD_ARGUMENT', /spec.vocabSize must be a whole number/, (engine) => engine.loadModel(load({ spec: { ...files.spec, vocabSize: 1.5 } }))],
  ['more layers than tensors', 'BAD_FILE', /num_hidden_layers of config.json is 30, but there are only 24 tensors/, (engine) => engine.loadModel(load({ spec: { ...files.spec, numLayers: 30 } }))],
  ['a layer without tensors', 'BAD_FILE', /lacks the tensor model.layers.2.self_attn.q_proj/, (engine) => engine.loadModel(load({ spec: { ...files.spec, numLayers: 3 } }))],
  ['a table without files', 'BAD_ARGUMENT', /needs a file/, (engine) => engine.loadModel(load({ weights: { files: [], tensors: [] } }))],
  ['a closed file', 'BAD_FILE', /cannot read \/gone/, (engine) => engine.loadModel(load({ weights: { files: [{ descriptor: 2 ** 30, path: '/gone' }], tensors: [] } }))],
  ['a path with a NUL', 'BAD_ARGUMENT', /without a NUL/, (engine) => engine.loadModel(load({ weights: { files: [{ descriptor: 0, path: 'a\0b' }], tensors: [] } }))],
  ['a tensor in no file', 'BAD_ARGUMENT', /has file index 1, but the table has 1 file/, (engine) => engine.loadModel(load({}, { file: 1 }))],
  ['a tensor beyond its file', 'BAD_FILE', /would span bytes 0 to 9007199254740991/, (engine) => engine.loadModel(load({}, { begin: 0, end: 2 ** 53 - 1 }))],
  ['a tensor that ends before it begins', 'BAD_FILE', /would span bytes 8 to 4/, (engine) => engine.loadModel(load({}, { begin: 8, end: 4 }))],
  ['a tensor of too few bytes', 'BAD_SHAPE', /takes 4 bytes instead of/, (engine) => engine.loadModel(load({}, { begin: 0, end: 4 }))],
  ['a tensor of another shape', 'BAD_SHAPE', /has shape \[2, 2\], expected/, (engine) => engine.loadModel(load({}, { shape: [2, 2] }))],
  ['a tensor of another type', 'BAD_FILE', /has type I64; F64, F32, F16 or BF16 is needed/, (engine) => engine.loadModel(load({}, { dtype: 'I64' }))],
  ['a tensor twice', 'BAD_FILE', /holds the tensor model.norm.weight a second time/, (engine) => engine.loadModel(load({}, { name: 'model.norm.weight' }))],
  ['a tensor too many', 'BAD_FILE', /holds the tensor odd, which a model with this config.json does not have/, (engine) => engine.loadModel(load({ weights: { ...files.weights, tensors: [...files.weights.tensors, { ...files.weights.tensors[0], name: 'odd' }] } }))],
  ['a shape of no sizes', 'BAD_ARGUMENT', /tensors\[0\].shape must be an array of sizes/, (engine) => engine.loadModel(load({}, { shape: [-1, 2] }))],

  [
    'an unknown policy kind',
    'BAD_ARGUMENT',
    /args.kind must be one of lora, full/,
    create({ kind: 'qlora' }),
  ],
  ['rank 0', 'BAD_ARGUMENT', /rank must be between/, create({ rank: 0 })],
  ['a broken rank', 'BAD_ARGUMENT', /args.rank must be a whole number/, create({ rank: 1.5 })],
  ['a rank beyond any use', 'BAD_ARGUMENT', /rank must be between/, create({ rank: 2 ** 30 })],
  ['no target', 'BAD_ARGUMENT', /at least one target/, create({ targets: [] })],
  ['an unknown target', 'BAD_ARGUMENT', /"lm_head"/, create({ targets: ['lm_head'] })],
  ['targets not in an array', 'BAD_ARGUMENT', /array of strings/, create({ targets: 'q_proj' })],
  ['dropout 1', 'BAD_ARGUMENT', /dropout must be at least 0 and below 1/, create({ dropout: 1 })],
  ['a seed that is a number', 'BAD_ARGUMENT', /args.seed must be a bigint/, create({ seed: 1 })],
  ['a negative seed', 'BAD_ARGUMENT', /between 0n and/, create({ seed: -1n })],
  ['a seed above 64 bits', 'BAD_ARGUMENT', /between 0n and/, create({ seed: 2n ** 64n })],
  ['beta1 of 1', 'BAD_ARGUMENT', /beta1 and beta2/, create({ beta1: 1 })],
  ['an unknown model', 'DISPOSED', /the model was disposed/, create({ model: 4711 })],
  ['a negative model', 'BAD_ARGUMENT', /args.model must be at least 0/, create({ model: -1 })],
  [
    'an adapter of no tensors',
    'BAD_FILE',
    /lacks the tensor base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight/,
    (engine) => {
      const { model: _, ...options } = lora();
      return engine.loadAdapter({ model, options, tensors: { ...files.weights, tensors: [] } });
    },
  ],

  ['no request list', 'BAD_ARGUMENT', /args.requests must be an array/, generate({}, { requests: {} })],
  [
    'a request that is null',
    'BAD_ARGUMENT',
    /args.requests\[0\] must be an object/,
    generate({}, { requests: [null] }),
  ],
  ['no callback', 'BAD_ARGUMENT', /onSequence must be a function/, generate({}, {}, null)],
  ['an empty prompt', 'BAD_ARGUMENT', /promptIds is empty/, generate({ promptIds: new Int32Array() })],
  ['a prompt of numbers', 'BAD_ARGUMENT', /promptIds must be an Int32Array/, generate({ promptIds: [1, 2] })],
  [
    'a token outside the vocabulary',
    'BAD_ARGUMENT',
    /promptIds\[1\] is token id 64;.* has 64/,
    generate({
      promptIds: Int32Array.of(1, 64),
    }),
  ],
  ['a negative token', 'BAD_ARGUMENT', /token id -1/, generate({ promptIds: Int32Array.of(-1) })],
  ['no samples', 'BAD_ARGUMENT', /numSamples must be at least 1/, generate({ numSamples: 0 })],
  ['no new tokens', 'BAD_ARGUMENT', /maxNewTokens must be at least 1/, generate({ maxNewTokens: 0 })],
  ['endless tokens', 'BAD_ARGUMENT', /a prompt of \d+ tokens and maxNewTokens 1099511627776 exceed the model's/, generate({ maxNewTokens: 2 ** 40 })],
  [
    'temperature NaN',
    'BAD_ARGUMENT',
    /temperature must be 0 \(greedy\) or a positive number, not nan/,
    generate({
      sampling: { ...nativeRequest().sampling, temperature: NaN },
    }),
  ],
  [
    'temperature below 0',
    'BAD_ARGUMENT',
    /temperature must be 0 \(greedy\) or a positive number, not -1/,
    generate({
      sampling: { ...nativeRequest().sampling, temperature: -1 },
    }),
  ],
  [
    'topP 0',
    'BAD_ARGUMENT',
    /topP must be above 0/,
    generate({ sampling: { ...nativeRequest().sampling, topP: 0 } }),
  ],
  [
    'minP 2',
    'BAD_ARGUMENT',
    /minP must be from 0 to 1/,
    generate({ sampling: { ...nativeRequest().sampling, minP: 2 } }),
  ],
  [
    'topK below 0',
    'BAD_ARGUMENT',
    /topK must be 0 \(off\) or positive, not -1/,
    generate({
      sampling: { ...nativeRequest().sampling, topK: -1 },
    }),
  ],
  [
    'repetition penalty 0',
    'BAD_ARGUMENT',
    /repetitionPenalty must be above 0/,
    generate({
      sampling: { ...nativeRequest().sampling, repetitionPenalty: 0 },
    }),
  ],
  ['an onProgress that is no function', 'BAD_ARGUMENT', /onProgress must be a function/, generate({}, { progressEveryMs: 1 }, () => {}, null)],
  ['an onProgress without a time', 'BAD_ARGUMENT', /progressEveryMs must be a number/, generate({}, {}, () => {}, () => {})],
  ['an onProgress with a negative time', 'BAD_ARGUMENT', /progressEveryMs must be 0 or positive, not -1/, generate({}, { progressEveryMs: -1 }, () => {}, () => {})],
  ['no slots', 'BAD_ARGUMENT', /maxSlots must be at least 1/, generate({}, { maxSlots: 0 })],
  ['a cache of another type', 'BAD_ARGUMENT', /kvCacheDtype must be .*auto.*int8/, generate({}, { kvCacheDtype: 'fp8' as 'int8' })],
  ['no number of speculative tokens', 'BAD_ARGUMENT', /numSpeculativeTokens must be/, generate({}, { numSpeculativeTokens: undefined })],
  ['a speculative token less than none', 'BAD_ARGUMENT', /numSpeculativeTokens must be .*16, not -1/, generate({}, { numSpeculativeTokens: -1 })],
  ['too many speculative tokens', 'BAD_ARGUMENT', /numSpeculativeTokens must be .*16, not 17/, generate({}, { numSpeculativeTokens: 17 })],
  [
    "another model's policy",
    'BAD_ARGUMENT',
    /belongs to another model/,
    (engine) => generate({ policy: otherPolicy })(engine),
  ],

  ['no sequence', 'BAD_ARGUMENT', /no sequence/, score({ ...sequences(0) })],
  ['offsets too short', 'BAD_SHAPE', /offsets has 2 numbers; 2 sequences need 3/, score({ offsets: Int32Array.of(0, 12) })],
  [
    'offsets past the ids',
    'BAD_SHAPE',
    /offsets must run from 0/,
    score({ offsets: Int32Array.of(0, 6, 99) }),
  ],
  ['offsets running backwards', 'BAD_SHAPE', /sequence 1/, score({ offsets: Int32Array.of(0, 13, 12) })],
  ['an empty sequence', 'BAD_SHAPE', /sequence 0 is empty/, score({ offsets: Int32Array.of(0, 0, 12) })],
  [
    'a prompt longer than its sequence',
    'BAD_SHAPE',
    /6 tokens and promptLength 7/,
    score({
      promptLengths: Int32Array.of(2, 7),
    }),
  ],
  ['a prompt of no tokens', 'BAD_SHAPE', /promptLength 0/, score({ promptLengths: Int32Array.of(0, 2) })],
  [
    'ids outside the vocabulary',
    'BAD_ARGUMENT',
    /ids\[11\] is token id 9999/,
    score({
      ids: sequences().ids.with(11, 9999),
    }),
  ],
  ['ids as float', 'BAD_ARGUMENT', /args.ids must be an Int32Array/, score({ ids: new Float32Array(12) })],
  ['scoring at temperature 0', 'BAD_ARGUMENT', /temperature must be above 0/, score({ temperature: 0 })],
  [
    "scoring another model's policy",
    'BAD_ARGUMENT',
    /another model/,
    (engine) => score({ policy: otherPolicy })(engine),
  ],
  ['an unknown policy', 'DISPOSED', /policy or its model was disposed/, score({ policy: 4711 })],

  [
    'a forward pass at temperature 0',
    'BAD_ARGUMENT',
    /temperature must be above 0/,
    forward({ temperature: 0 }),
  ],
  [
    'a forward pass of an unknown policy',
    'DISPOSED',
    /policy or its model was disposed/,
    forward({ policy: 4711 }),
  ],
  [
    'a dropout seed that is a number',
    'BAD_ARGUMENT',
    /dropoutSeed must be a bigint/,
    forward({ dropoutSeed: 1 }),
  ],
  ['too few slopes', 'BAD_SHAPE', /dLogprobs has 7 numbers for 8/, backward(new Float64Array(7))],
  ['slopes in float32', 'BAD_ARGUMENT', /dLogprobs must be a Float64Array/, backward(new Float32Array(8))],
  [
    'a slope that is NaN',
    'BAD_ARGUMENT',
    /dLogprobs\[3\] is not finite/,
    backward(new Float64Array(8).fill(NaN, 3, 4)),
  ],
  ['backward without forward', 'BAD_ARGUMENT', /call forward first/, backward(new Float64Array(8), null)],
  [
    'an infinite learning rate',
    'BAD_ARGUMENT',
    /learningRate must be 0 or a positive number, not inf/,
    step({ learningRate: Infinity }),
  ],
  ['a learning rate out of range', 'BAD_ARGUMENT', /out of the range/, step({ learningRate: 1e36 })],
  ['a negative weight decay', 'BAD_ARGUMENT', /weightDecay must be 0 or a positive number, not -1/, step({ weightDecay: -1 })],

  [
    'saving into no folder',
    'BAD_FILE',
    /\/nowhere\/a/,
    (engine) => engine.savePolicy({ policy, path: '/nowhere/a.safetensors', dtype: null }),
  ],
  [
    'restoring from tensors of something else',
    'BAD_FILE',
    /lacks the tensor base_model/,
    (engine) => engine.restorePolicy({ policy, tensors: files.weights }),
  ],
  [
    'restoring an optimizer from no table',
    'BAD_ARGUMENT',
    /args.tensors must be an object/,
    (engine) => engine.restoreOptimizer({ policy, path: '/nowhere/a.safetensors' }),
  ],
]; // prettier-ignore

test.each(CASES)('%s: %s', async (_name, code, sentence, call) => {
  const failure = await failureOf(() => call(native as never));
  expect(failure.message).toMatch(sentence);
  expect(failure.code).toBe(code);
  expect(failure.message).not.toMatch(/\n|C\+\+|frame #/);
  await stillWorks();
});

const ENGINE_CASES: [name: string, code: ErrorCodeName, sentence: RegExp, options: object][] = [
  ['an unknown device', 'BAD_ARGUMENT', /auto, cpu, cuda or cuda:<n>, not "tpu"/, { device: 'tpu' }],
  ['a malformed device', 'BAD_ARGUMENT', /not "cuda:x"/, { device: 'cuda:x' }],
  ['a device number out of range', 'DEVICE', /device cuda:99/, { device: 'cuda:99' }],
  ['negative threads', 'BAD_ARGUMENT', /threads must be at least 0/, { threads: -1 }],
  ['too many threads', 'BAD_ARGUMENT', /at most 1024/, { threads: 1e6 }],
  ['threads as text', 'BAD_ARGUMENT', /threads must be a number/, { threads: '2' }],
];

test.each(ENGINE_CASES)('createEngine with %s: %s', async (_name, code, sentence, options) => {
  const failure = await failureOf(() => createEngine({ device: 'cpu', threads: 1, ...options }));
  expect(failure).toMatchObject({ name: 'AcoerError', code });
  expect(failure.message).toMatch(sentence);
});

/** Calls of the library with what TypeScript would refuse. */
const OPTION_CASES: [name: string, sentence: RegExp, call: (engine: Engine, model: Model) => unknown][] = [
  [
    'createEngine("cpu")',
    /createEngine's options must be an object, not "cpu"/,
    () => createEngine(wrong('cpu')),
  ],
  [
    'createEngine(null)',
    /createEngine's options must be an object, not null/,
    () => createEngine(wrong(null)),
  ],
  [
    'createEngine({ treads })',
    /createEngine has no option treads; did you mean `threads`\?/,
    () => createEngine(wrong({ device: 'cpu', treads: 2 })),
  ],
  [
    'loadModel of a number',
    /loadModel's directory must be a string, not a number/,
    (engine) => engine.loadModel(wrong(1)),
  ],
  [
    'loadModel of a path with a NUL',
    /loadModel's directory must be a string, without a NUL character/,
    (engine) => engine.loadModel('/tmp\0/x'),
  ],
  [
    'restore without a path',
    /the path must be a string, not undefined/,
    async (_, model) => (await someLora(model)).restore(wrong(undefined)),
  ],
  [
    'loadModel with a misspelt type',
    /loadModel has no option dtpe; did you mean `dtype`\?/,
    (engine) => engine.loadModel(directory, wrong({ dtpe: 'float64' })),
  ],
  [
    'measureCeilings with an unknown option',
    /measureCeilings has no option seconds \(there are signal, queue\)/,
    (engine) => engine.measureCeilings('float32', wrong({ seconds: 1 })),
  ],
  [
    'createPolicy()',
    /createPolicy's options must be an object/,
    (_, model) => model.createPolicy(wrong(undefined)),
  ],
  [
    'createPolicy of a whole model with a rank',
    /createPolicy has no option rank \(there are kind, beta1, beta2, eps, shard\)/,
    (_, model) => model.createPolicy(wrong({ kind: 'full', rank: 8 })),
  ],
  [
    'createPolicy with a misspelt target list',
    /createPolicy has no option targetModule; did you mean `targetModules`\?/,
    (_, model) => model.createPolicy(wrong({ kind: 'lora', rank: 2, alpha: 4, seed: 1n, targetModule: [] })),
  ],
  [
    'generate("x")',
    /generate's requests must be an array, not "x"/,
    (_, model) => model.generate(wrong('x')),
  ],
  [
    'generate(["x"])',
    /generate's requests\[0\] must be an object, not "x"/,
    (_, model) => model.generate(wrong(['x'])),
  ],
  [
    'generate([null])',
    /generate's requests\[0\] must be an object, not null/,
    (_, model) => model.generate(wrong([null])),
  ],
  [
    'generate with a signal that is none',
    /generate's signal must be an AbortSignal, not an object/,
    (_, model) => model.generate([request()], { signal: wrong({}) }),
  ],
  [
    'generate with an empty prompt',
    /generate's requests\[1\].promptIds is empty; a prompt has at least one token/,
    (_, model) => model.generate([request(), request({ promptIds: new Int32Array(0) })]),
  ],
  [
    'generate with a temperature outside sampling',
    /generate's requests\[1\] has no option temperature/,
    (_, model) => model.generate([request(), wrong({ ...request(), temperature: 0 })]),
  ],
  [
    'generate with a misspelt sampling option',
    /generate's requests\[0\].sampling has no option temprature; did you mean `temperature`\?/,
    (_, model) => model.generate([request({ sampling: wrong({ temprature: 0 }) })]),
  ],
  [
    'generate with a misspelt option',
    /generate has no option maxSlot; did you mean `maxSlots`\?/,
    (_, model) => model.generate([request()], wrong({ maxSlot: 1 })),
  ],
  [
    'generate with a misspelt number of speculative tokens',
    /generate has no option numSpeculativeToken; did you mean `numSpeculativeTokens`\?/,
    (_, model) => model.generate([request()], wrong({ numSpeculativeToken: 1 })),
  ],
  ['score()', /score's sequences must be an object/, (_, model) => model.score(wrong(undefined))],
  [
    'score with a misspelt option',
    /score has no option temprature; did you mean `temperature`\?/,
    (_, model) => model.score(sequences(), wrong({ temprature: 2 })),
  ],
  [
    'step()',
    /step's options must be an object/,
    async (_, model) => (await someLora(model)).step(wrong(undefined)),
  ],
  [
    'step with a misspelt option',
    /step has no option maxGradientNorm; did you mean `maxGradNorm`\?/,
    async (_, model) => (await someLora(model)).step(wrong({ learningRate: 1e-3, maxGradientNorm: 1 })),
  ],
  [
    'forward with an unknown option',
    /forward has no option que; did you mean `queue`\?/,
    async (_, model) => (await someLora(model)).forward(sequences(), wrong({ que: false })),
  ],
];

const wrong = (value: unknown): never => value as never;
const someLora = (model: Model) => model.createPolicy({ kind: 'lora', rank: 2, alpha: 4, seed: 1n });

test.each(OPTION_CASES)('%s is refused', async (_name, sentence, call) => {
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  const base = await engine.loadModel(directory);
  const ended = call(engine, base);
  // What a call gets wrong is told by its promise alone.
  expect(ended).toBeInstanceOf(Promise);
  const failure = await failureOf(() => ended);
  expect(failure).toMatchObject({ name: 'AcoerError', code: 'BAD_ARGUMENT' });
  expect(failure.message).toMatch(sentence);
});

test('the class and its methods refuse a wrong this', () => {
  const { Engine } = loadAddon() as unknown as { Engine: { (): void; prototype: NativeEngine } };
  expect(() => Engine()).toThrow();
  expect(() => Engine.prototype.deviceInfo.call({} as NativeEngine)).toThrow();
  expect(() => Engine.prototype.memory.call({} as NativeEngine)).toThrow();
});

test('a getter that throws gives its own error', async () => {
  const mine = new RangeError('mine');
  const args = {
    get policy(): never {
      throw mine;
    },
  };
  expect(await failureOf(() => native.zeroGradients(args))).toBe(mine);
});

test('files that are missing, torn, foreign or no files are refused by name', async () => {
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  const base = await engine.loadModel(directory);
  const own = await someLora(base);
  const folder = mkdtempSync(join(tmpdir(), 'acoer-torn-'));
  const contents: [string, Buffer][] = [
    ['empty', Buffer.alloc(0)],
    ['short', Buffer.from([1, 2, 3])],
    ['huge-header', Buffer.from('ffffffffffffff7f', 'hex')],
    ['text', Buffer.from('this is no safetensors file at all')],
  ];
  for (const [name, bytes] of contents) writeFileSync(join(folder, `${name}.safetensors`), bytes);
  execFileSync('mkfifo', [join(folder, 'pipe.safetensors')]);
  symlinkSync('loop.safetensors', join(folder, 'loop.safetensors'));
  mkdirSync(join(folder, 'folder.safetensors'));
  const names = [...contents.map(([name]) => name), 'pipe', 'loop', 'folder', 'missing'];
  for (const name of names.map((name) => `${name}.safetensors`)) {
    const path = join(folder, name);
    for (const method of ['restore', 'restoreOptimizer'] as const) {
      const failure = await failureOf(() => own[method](path));
      expect(failure).toMatchObject({ code: 'BAD_FILE' });
      expect(failure.message).toContain(name);
      expect(failure.message).not.toContain('\n');
    }
    for (const call of [() => engine.loadModel(path), () => base.loadAdapter(path)]) {
      expect(await failureOf(call)).toMatchObject({ code: 'BAD_FILE' });
    }
  }
  await own.zeroGradients();
});

test('calls run in the order they were made, whichever of them read files', async () => {
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  const base = await engine.loadModel(directory);
  const own = await someLora(base);
  const other = await base.createPolicy({ kind: 'lora', rank: 2, alpha: 4, seed: 2n });
  const path = join(mkdtempSync(join(tmpdir(), 'acoer-order-')), 'a.safetensors');
  // Each needs what the one before left.
  await Promise.all([
    own.save(path),
    other.restore(path),
    other.save(`${path}2`),
    own.restore(`${path}2`),
    own.save(`${path}3`),
  ]);
  expect(readFileSync(`${path}3`).equals(readFileSync(path))).toBe(true);
});

test('a call that is cancelled while it waits to read its files never reaches the engine', async () => {
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  const aborting = new AbortController();
  const loading = failureOf(() => engine.loadModel(directory, { signal: aborting.signal }));
  aborting.abort();
  expect(await loading).toMatchObject({ code: 'CANCELLED' });
  expect((await engine.memory()).engineBytes).toBe(0);
});

test('what was disposed is refused by everything that uses it', async () => {
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  const base = await engine.loadModel(directory);
  const kept = await base.createPolicy({ kind: 'lora', rank: 2, alpha: 4, seed: 1n });
  const gone = await base.createPolicy({ kind: 'lora', rank: 2, alpha: 4, seed: 1n });
  await gone.dispose();
  await gone.dispose();
  for (const use of [
    () => gone.step({ learningRate: 1 }),
    () => gone.gradients(),
    () => base.score(sequences(), { policy: gone }),
    () => base.generate([request({ policy: gone })]),
  ]) {
    expect(await failureOf(use)).toMatchObject({ code: 'DISPOSED' });
  }
  await base.score(sequences(), { policy: kept });
  await base.dispose();
  await base.dispose();
  for (const use of [
    () => base.score(sequences()),
    () => kept.zeroGradients(),
    () => base.loadAdapter('/nowhere'),
  ]) {
    expect(await failureOf(use)).toMatchObject({ code: 'DISPOSED' });
  }
  await kept.dispose();
  expect((await engine.memory()).engineBytes).toBe(0);
});

test("a policy of another engine's model is refused, whatever its number", async () => {
  await using a = await createEngine({ device: 'cpu', threads: 1 });
  await using b = await createEngine({ device: 'cpu', threads: 1 });
  const modelA = await a.loadModel(directory);
  const modelB = await b.loadModel(directory);
  const policyB = await modelB.createPolicy({ kind: 'lora', rank: 2, alpha: 4, seed: 1n });
  expect(await failureOf(() => modelA.score(sequences(), { policy: policyB }))).toMatchObject({
    code: 'BAD_ARGUMENT',
  });
  expect(await failureOf(() => modelA.score(sequences(), { policy: {} as never }))).toMatchObject({
    code: 'BAD_ARGUMENT',
  });
});
