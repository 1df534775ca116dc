/** What a user's program may hand in by mistake: each is one error with a code and a sentence that names the argument. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as library from '../../src/index';
import {
  errorCode,
  registerLoss,
  registerReward,
  sft,
  train,
  type TrainOptions,
  type TrainSettings,
} from '../../src/index';
import { listLosses } from '../../src/losses';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeDataset, fakeTokenizer } from '../helpers/fake-tokenizer';
import { asCall, type Given } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-border-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let runs = 0;

/** A run of two steps under options of which some are wrong. */
async function run(wrong: object): Promise<void> {
  const given = {
    model: 'tiny',
    out: join(root, `run-${runs++}`),
    maxSteps: 2,
    promptsPerStep: 2,
    numGenerations: 2,
    maxCompletionLength: 40,
    evalProblems: 0,
    evalSampledProblems: 0,
    rewardTimeoutMs: 200,
    engine: new FakeEngine(),
    tokenizer: fakeTokenizer,
    trainData: fakeDataset(30),
    ...wrong,
  } as Given;
  await (await train(...asCall(given))).result();
}

async function refused(work: () => unknown, code: string | RegExp, message: RegExp): Promise<void> {
  const error: unknown = await (async () => work())().then(
    () => null,
    (reason: unknown) => reason,
  );
  expect({ code: errorCode(error), message: (error as Error).message }).toMatchObject({
    code: expect.stringMatching(code),
  });
  expect((error as Error).message).toMatch(message);
}

const own = (changes: object) => ({ ...fakeTokenizer, ...changes });
const problem = { id: '1', question: 'say 1', gold: '1', level: null };
const data = (changes: object) => ({ name: 'mine', size: 30, get: () => problem, ...changes });
const gives = (value: unknown) => data({ get: () => value });

test.each<[string, object, RegExp]>([
  ['5', { tokenizer: 5 }, /^tokenizer must be an object with encode, decode, renderChat, not 5/],
  ['{}', { tokenizer: {} }, /^tokenizer.encode must be a function, not undefined/],
  ['no decode', { tokenizer: own({ decode: 'x' }) }, /^tokenizer.decode must be a function, not "x"/],
  [
    'no size',
    { tokenizer: own({ vocabSize: 0 }) },
    /^tokenizer.vocabSize must be a whole number of at least 1/,
  ],
  ['no end', { tokenizer: own({ eosIds: [] }) }, /^tokenizer.eosIds must be a list of at least one token id/],
  ['an end that is text', { tokenizer: own({ eosIds: ['1'] }) }, /^tokenizer.eosIds\[0\] must be a token id/],
  [
    'an end outside',
    { tokenizer: own({ eosIds: [46] }) },
    /^tokenizer.eosIds\[0\] must be a token id, from 0 to 45/,
  ],
  ['no padding', { tokenizer: own({ padId: undefined }) }, /^tokenizer.padId must be a token id/],
  [
    '<think> of 1.5',
    { tokenizer: own({ thinkOpenId: 1.5 }) },
    /^tokenizer.thinkOpenId must be a token id.*or null/,
  ],
  [
    'first ids',
    { tokenizer: own({ firstIds: 1 }) },
    /^tokenizer.firstIds must be a list of token ids, not 1/,
  ],
  [
    'encode gives text',
    { tokenizer: own({ encode: () => 'x' }) },
    /^tokenizer.encode returned "x", not an Int32Array/,
  ],
  [
    'encode gives fractions',
    { tokenizer: own({ encode: () => [1, 1.5] }) },
    /^tokenizer.encode gave 1.5 as id 1/,
  ],
  ['encode gives -1', { tokenizer: own({ encode: () => Int32Array.of(-1) }) }, /gave -1 as id 0/],
  ['encode gives 1e9', { tokenizer: own({ encode: () => Int32Array.of(1e9) }) }, /gave 1000000000 as id 0/],
  [
    'encode is async',
    { tokenizer: own({ encode: async () => [1] }) },
    /^tokenizer.encode returned a Promise/,
  ],
  [
    'encode throws',
    {
      tokenizer: own({
        encode: () => {
          throw new Error('no file');
        },
      }),
    },
    /^tokenizer.encode failed: no file/,
  ],
  [
    'decode gives ids',
    { tokenizer: own({ decode: () => [1] }) },
    /^tokenizer.decode returned a list of 1, not a string/,
  ],
  ['the chat is null', { tokenizer: own({ renderChat: () => null }) }, /^tokenizer.renderChat returned null/],
])('a tokenizer: %s', (_, wrong, message) => refused(() => run(wrong), /^BAD_(ARGUMENT|INPUT)$/, message));

test('a tokenizer may give lists, and keep what it needs in its prototype', async () => {
  class Mine {
    readonly start = 0;
    encode(text: string) {
      return [...fakeTokenizer.encode(text.slice(this.start))];
    }
    decode = (ids: ArrayLike<number>) => fakeTokenizer.decode(ids);
    renderChat = fakeTokenizer.renderChat;
    thinkOpenId = 2;
    thinkCloseId = 3;
    eosIds = [1];
    padId = 0;
    get vocabSize() {
      return 46;
    }
  }
  await run({ tokenizer: new Mine() });
});

test.each<[string, object, RegExp]>([
  ['5', { trainData: 5 }, /^trainData must be an object with get, not 5/],
  ['a list', { trainData: [problem] }, /^trainData.get must be a function/],
  ['no name', { trainData: data({ name: undefined }) }, /^trainData.name must be a string, not undefined/],
  [
    'size -1',
    { trainData: data({ size: -1 }) },
    /^trainData.size must be a whole number of at least 1, not -1/,
  ],
  ['size NaN', { trainData: data({ size: NaN }) }, /^trainData.size must be/],
  ['size "30"', { trainData: data({ size: '30' }) }, /^trainData.size must be .* not "30"/],
  ['get gives null', { trainData: gives(null) }, /^trainData.get\(\d+\) returned null, not a problem/],
  ['get gives nothing', { trainData: gives(undefined) }, /returned undefined, not a problem/],
  [
    'get gives a promise',
    { trainData: gives(Promise.resolve(problem)) },
    /returned a promise; it must return the problem/,
  ],
  ['no id', { trainData: gives({ ...problem, id: 1 }) }, /has the id 1, which must be a string/],
  [
    'a question that is none',
    { trainData: gives({ ...problem, question: ['x'] }) },
    /has the question a list of 1/,
  ],
  [
    'a number as gold',
    { trainData: gives({ ...problem, gold: 7 }) },
    /has the gold 7, which must be a string or null/,
  ],
  ['no gold', { trainData: gives({ id: '1', question: 'x', level: null }) }, /has the gold undefined/],
  ['a level that is none', { trainData: gives({ ...problem, level: 3 }) }, /has the level 3/],
  [
    'get throws',
    {
      trainData: data({
        get: () => {
          throw new Error('disk');
        },
      }),
    },
    /^trainData.get\(\d+\) failed: disk/,
  ],
  ['evaluation', { evalData: gives(null), evalProblems: 2 }, /^evalData.get\(0\) returned null/],
])('data: %s', (_, wrong, message) => refused(() => run(wrong), /^BAD_(ARGUMENT|INPUT)$/, message));

test.each<[string, unknown, RegExp]>([
  ['null', null, /of train\(\) must be an object, not null/],
  ['5', 5, /must be an object, not 5/],
  ['a list', [], /must be an object, not a list of 0/],
  ['a text', 'tiny', /must be an object, not "tiny"/],
])('what is no object is refused as settings and as options: %s', async (_, wrong, message) => {
  await refused(() => train(wrong as TrainSettings), 'BAD_ARGUMENT', /^the settings of train\(\)/);
  await refused(() => train({}, wrong as TrainOptions), 'BAD_ARGUMENT', /^the options of train\(\)/);
  await refused(() => train({}, wrong as TrainOptions), 'BAD_ARGUMENT', message);
});

test.each<[object, object, RegExp]>([
  [{ resume: 'a' }, {}, /^resume is an option, not a setting: train\(settings, \{ resume \}\)\.$/],
  [
    { model: 'tiny', out: 'a', signal: new AbortController().signal, onEvent: () => undefined },
    {},
    /^out, signal and onEvent are options, not settings: train\(settings, \{ out, signal, onEvent \}\)\.$/,
  ],
  [
    { dataset: [], reward: [() => 1, { name: 'acc' }], judge: () => true, sinks: [{}] },
    {},
    /^dataset \(a list of rows\), reward \(a function or a list with one\), judge .* are options, not settings/,
  ],
  [{}, { maxSteps: 2 }, /^maxSteps is a setting, not an option: train\(\{ maxSteps \}, options\)\.$/],
  [{}, { preset: 'tiny', seed: 1 }, /^preset and seed are settings, not options/],
  [{}, { onevent: () => undefined }, /^train\(\) has no option onevent; did you mean `onEvent`\?$/],
  [{}, { wandb: true }, /^train\(\) has no option wandb; it has out, resume, .*sampler, sinks\.$/],
  [
    {},
    { reward: 'acc' },
    /^reward must be a function or a list with one, not "acc"; by name it is a setting: train\(\{ reward \}, options\)\.$/,
  ],
  [{}, { sinks: [{}, 'sink.mjs'] }, /^sinks must be a list of objects, not a list of 2; by name/],
])('settings %p with the options %p', (settings, options, message) =>
  refused(() => train(settings, options), 'BAD_ARGUMENT', message),
);

test.each<[object, object, RegExp]>([
  [
    { dataset: [], resume: 'a' },
    {},
    /^dataset \(a list of rows\) and resume are options, not settings: sft\(settings/,
  ],
  [{}, { epochs: 2 }, /^epochs is a setting, not an option: sft\(\{ epochs \}, options\)\.$/],
  [{}, { dataset: 'a' }, /^dataset must be a list of rows, not "a"; by name it is a setting: sft\(/],
  [{}, { sampler: () => undefined }, /^sft\(\) has no option sampler/],
])('sft with the settings %p and the options %p', (settings, options, message) =>
  refused(() => sft(settings, options), 'BAD_ARGUMENT', message),
);

test('what is left undefined has no place', async () => {
  const settings = { maxSteps: -1, signal: undefined } as TrainSettings;
  await refused(() => train(settings, { seed: undefined } as TrainOptions), 'BAD_CONFIG', /maxSteps/);
});

test.each<[string, unknown, RegExp]>([
  [
    'an EventTarget as signal',
    { signal: new EventTarget() },
    /^signal must be an AbortSignal, not a EventTarget/,
  ],
  ['a controller as signal', { signal: new AbortController() }, /^signal must be an AbortSignal/],
  ['true as signal', { signal: true }, /^signal must be an AbortSignal, not true/],
  ['null as signal', { signal: null }, /^signal must be an AbortSignal, not null/],
  ['onEvent', { onEvent: 'log' }, /^onEvent must be a function, not "log"/],
  ['a sampler that is no function', { sampler: {} }, /^sampler must be a function, not an object/],
  ['a sink', { sinks: {} }, /^sinks must be a list, not an object/],
  ['a sink of null', { sinks: [null] }, /^sinks\[0\] must be an object, not null/],
  ['a sink that is a function', { sinks: [() => ({})] }, /^sinks\[0\] must be an object, not a function/],
  ['a method that is none', { sinks: [{ step: 5 }] }, /^sinks\[0\].step must be a function, not 5/],
  ['an engine', { engine: {} }, /^engine.loadModel must be a function/],
])('options of train: %s', (_, wrong, message) =>
  refused(() => train({}, wrong as TrainOptions), 'BAD_ARGUMENT', message),
);

test.each<[string, object, RegExp]>([
  [
    'that throws',
    {
      sampler: () => {
        throw new Error('no key');
      },
    },
    /^sampler\(\) failed: no key/,
  ],
  [
    'that makes nothing',
    { sampler: () => undefined },
    /^what sampler\(\) returns must be an object with sample, follow/,
  ],
  [
    'that makes half of one',
    { sampler: () => ({ sample: async () => undefined }) },
    /returns.follow must be a function/,
  ],
])('a sampler %s', (_, wrong, message) =>
  refused(() => run(wrong), /^(SAMPLER_FAILED|BAD_ARGUMENT)$/, message),
);

const BAD_ANSWERS: [string, () => unknown][] = [
  ['NaN', () => NaN],
  ['Infinity', () => Infinity],
  ['a text', () => '1'],
  ['null', () => null],
  ['nothing', () => undefined],
  ['a list', () => [1]],
  ['true', () => true],
  ['a bigint', () => 1n],
  [
    'an error',
    () => {
      throw new Error('x');
    },
  ],
  [
    'null thrown',
    () => {
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- users throw anything
      throw null;
    },
  ],
  ['a promise that never settles', () => new Promise(() => undefined)],
  [
    'a loop',
    () => {
      for (;;);
    },
  ],
];

test.each(BAD_ANSWERS)('a reward that gives %s', async (_, reward) => {
  await refused(
    () => run({ reward }),
    'REWARD_FAILED',
    /Reward "reward" (failed on|gave .* for) sample \d of prompt \d/,
  );
});

test.each(BAD_ANSWERS.filter(([name]) => name !== 'true'))('a judge that gives %s', async (_, judge) => {
  await refused(
    () => run({ judge }),
    'JUDGE_FAILED',
    /The judge judge failed on a completion of problem \d+/,
  );
});

test('a reward whose first state cannot be made', async () => {
  const initialState = () => {
    throw new Error('no file');
  };
  registerReward('stateless', { score: () => 1, initialState });
  await refused(
    () => run({ reward: 'stateless' }),
    'REWARD_FAILED',
    /"stateless" failed to make its first state: no file/,
  );
});

const dapo = listLosses().find(({ name }) => name === 'dapo')!;

test.each<[string, object, RegExp]>([
  ['returns nothing', { compute: () => undefined }, /returned undefined, not \{ loss, slopes/],
  ['returns a promise', { compute: async () => ({}) }, /^Loss "mine" returned /],
  [
    'throws',
    {
      compute: () => {
        throw new Error('x');
      },
    },
    /failed in compute: x/,
  ],
  ['has a text as loss', bent({ loss: '1' }), /returned the loss "1", not a number/],
  ['has no slopes', bent({ slopes: undefined }), /slopes that are undefined/],
  ['has a list of slopes', bent({ slopes: [1, 2] }), /slopes that are a list of 2/],
  ['has too few slopes', bent({ slopes: new Float64Array(1) }), /1 slopes for \d+ completion tokens/],
  ['has no klSum', bent({ klSum: null }), /returned the klSum null/],
  ['has no measures', bent({ measures: null }), /measures that are null/],
  [
    'has measures of another length',
    bent({ measures: { a: new Float64Array(99) } }),
    /a Float64Array of 99 as measure a/,
  ],
  ['has no normalizer', { normalizer: () => NaN }, /has the normalizer NaN, not a number above 0/],
  ['divides by 0', { normalizer: () => 0 }, /has the normalizer 0/],
])('a loss that %s', async (_, wrong, message) => {
  registerLoss({ ...dapo, name: 'mine', ...wrong });
  await refused(() => run({ lossType: 'mine' }), 'LOSS_FAILED', message);
});

function bent(changes: object) {
  const compute: typeof dapo.compute = (...given) => ({ ...dapo.compute(...given), ...changes });
  return { compute };
}

const NAMES: [string, unknown][] = [
  ['nothing', undefined],
  ['null', null],
  ['a number', 5],
  ['an empty text', ''],
  ['spaces', '  '],
  ['a space at the end', 'mine '],
  ['a slash', 'a/b'],
  ['a backslash', 'a\\b'],
  ['a control sequence', '\u001b[2J'],
  ['a line', 'a\nb'],
  ['text that turns', 'a\u202eb'],
  ['100,000 characters', 'x'.repeat(100_000)],
  ['__proto__', '__proto__'],
  ['constructor', 'constructor'],
  ['toString', 'toString'],
];

test.each(NAMES)('a name that is %s is refused for rewards, losses and model families', async (_, name) => {
  await refused(() => registerReward(name as string, () => 1), 'BAD_CONFIG', /^The name of a reward /);
  await refused(() => registerLoss({ ...dapo, name: name as string }), 'BAD_CONFIG', /^The name of a loss /);
  const family = {
    architecture: name as string,
    modelType: 'x',
    readSpec: () => ({}) as never,
    tensorName: () => null,
  };
  await refused(() => library.registerModelFamily(family), 'BAD_CONFIG', /^The name of a model family /);
});

test.each(
  Object.entries(library).filter(
    ([name]) =>
      ![
        'AcoerError',
        'errorCode',
        'TrainRun',
        'trackerTag',
        'METRICS',
        'PRESETS',
        'verifyAnswer',
        'verifyCompletion',
      ].includes(name),
  ),
)('%s(null) is an error with a code', (_, call) =>
  refused(() => (call as (value: unknown) => unknown)(null), /^[A-Z_]+$/, /null|name|JSON/i),
);
