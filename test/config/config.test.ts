import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  currentSettings,
  describeConfig,
  describeConfigMarkdown,
  parseAssignments,
  PRESETS,
  readConfigFile,
  resolveConfig,
} from '../../src/config';
import { errorCode, exitCodeFor } from '../../src/base/errors';
import { DEFAULT_PROMPT_TEMPLATE } from '../../src/tokenizer';

function refused(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    expect(errorCode(error)).toBe('BAD_CONFIG');
    expect(exitCodeFor(error)).toBe(2);
    return (error as Error).message;
  }
  throw new Error('expected an error');
}

describe('layers', () => {
  test('no settings give the embedded default', () => {
    const config = resolveConfig([]);
    expect(config).toMatchObject({
      model: 'tiny',
      reward: 'acoer',
      promptsPerStep: 8,
      numGenerations: 4,
      maxSteps: 200,
    });
    expect(config).toMatchObject({
      advantageEpsilon: 0.2,
      learningRate: 1.2e-3,
      lrSchedulerType: 'cosine',
      warmupRatio: 0.1,
      lossType: 'dapo',
    });
  });

  test("the slide preset differs from the default only in TRL's epsilon and a constant rate", () => {
    const of = (preset?: string) => resolveConfig([], preset);
    expect(of('slide')).toEqual({
      ...of(),
      advantageEpsilon: 1e-4,
      learningRate: 1.5e-3,
      lrSchedulerType: 'constant',
      warmupRatio: 0.05,
    });
  });

  test("the tiny-hard preset differs from the default only in its task and TRL's epsilon", () => {
    const of = (preset?: string) => resolveConfig([], preset);
    expect(of('tiny-hard')).toEqual({ ...of(), dataset: 'tiny-hard', advantageEpsilon: 1e-4 });
  });

  test('any other model starts from the paper preset', () => {
    const config = resolveConfig([{ model: '/models/Qwen3-1.7B' }]);
    expect(config).toMatchObject({
      promptsPerStep: 1,
      numGenerations: 16,
      maxCompletionLength: 8192,
      maxSteps: 1200,
    });
    expect(config).toMatchObject({
      learningRate: 5e-6,
      weightDecay: 0.01,
      warmupRatio: 0.1,
      loraRank: 16,
      loraAlpha: 32,
    });
    expect(config).toMatchObject({
      lossType: 'grpo',
      beta: 0,
      maxGradNorm: 1,
      saveSteps: 200,
      evalSteps: 200,
    });
    expect(config.promptTemplate).toBe(DEFAULT_PROMPT_TEMPLATE);
  });

  test('later layers win; reward parameters are merged', () => {
    const config = resolveConfig([
      { seed: 1, rewardParams: { acoer: { alphaUp: 1.3 } } },
      parseAssignments(['seed=2', 'rewardParams.acoer.alphaMax=0.4', 'rewardParams.beta0.01.l=3']),
    ]);
    expect(config.seed).toBe(2);
    expect(config.rewardParams.acoer).toMatchObject({ alphaUp: 1.3, alphaMax: 0.4, minBudget: 16 });
    expect(config.rewardParams['beta0.01']).toEqual({ l: 3 });
  });

  test('a resolved configuration resolves to itself', () => {
    for (const preset of Object.keys(PRESETS)) {
      const config = resolveConfig([], preset);
      expect(resolveConfig([JSON.parse(JSON.stringify(config))])).toEqual(config);
    }
  });
});

describe('refusals', () => {
  test('reports all problems at once, each with its path', () => {
    const message = refused(() =>
      resolveConfig([
        {
          learning_rat: 1,
          numGenerations: 1,
          temperature: 0,
          lossType: 'ppo',
          targetModules: ['q'],
        } as never,
      ]),
    );
    expect(message).toContain('5 problems');
    expect(message).toContain('learning_rat: unknown setting; did you mean `learningRate`?');
    expect(message).toContain('numGenerations: must be at least 2, not 1');
    expect(message).toContain('temperature: must be above 0, not 0');
    expect(message).toContain('lossType: must be one of grpo,');
    expect(message).toContain('targetModules.0: must be one of q_proj');
  });

  test.each([
    [{ maxSteps: 1.5 }, 'maxSteps: must be a whole number, not 1.5'],
    [{ maxSteps: 'ten' }, 'maxSteps: must be'],
    [{ topP: 0 }, 'topP: must be above 0'],
    [{ device: 'gpu' }, 'device: must be auto, cpu, cuda or cuda:<n>, not "gpu"'],
    [{ numSpeculativeTokens: -1 }, 'numSpeculativeTokens: must be at least 0, not -1'],
    [{ numSpeculativeTokens: 17 }, 'numSpeculativeTokens: must be at most 16, not 17'],
    [{ quantization: 'fp4' }, 'quantization: must be one of nf4, int8'],
    [
      { quantization: 'int8', full: true },
      'quantization: is int8, but `full` trains all weights, which cannot be quantised',
    ],
    [{ delta: 1.1 }, 'delta: is 1.1, but must be above 1 + epsilonHigh = 1.2'],
    [{ delta: 2, lossType: 'cispo' }, 'delta: has no effect with lossType cispo'],
    [
      { sapoTemperaturePos: 2 },
      'sapoTemperaturePos: unknown setting; it is now `lossParams.sapo.temperaturePos`',
    ],
    [
      { lossParams: { sapo: { temperature: 2 } } },
      'lossParams.sapo.temperature: unknown setting; did you mean',
    ],
    [{ lossParams: { vespo: { kPos: -1 } } }, 'lossParams.vespo.kPos: must be at least 0, not -1'],
    [{ lossParams: { vepso: {} } }, 'lossParams.vepso: is not a known loss'],
    [
      { importanceSamplingCorrection: 'token_mask', importanceSamplingClipMin: 4 },
      'importanceSamplingClipMin: is 4, but must be below importanceSamplingClipMax = 3',
    ],
    [
      { importanceSamplingCorrection: 'sequence_mask', lossType: 'vespo' },
      'importanceSamplingCorrection: is sequence_mask, but vespo already weights each sequence',
    ],
    [{ reward: [{ name: 'acc' }, { name: 'acc' }] }, 'reward: lists "acc" twice'],
    [{ reward: [{ name: 'acc', wieght: 2 }] }, 'reward.0.wieght: unknown setting; did you mean `weight`?'],
    [{ reward: [] }, 'reward: must have at least 1 entry'],
    [{ reward: 3 }, 'reward: must be a name or a list'],
    [{ promptTemplate: 'no place' }, 'promptTemplate: has no {problem}'],
    [{ preset: 'tyni' }, 'preset: there is no preset "tyni"; did you mean `tiny`?'],
  ])('%j', (values, sentence) => {
    expect(refused(() => resolveConfig([values as never]))).toContain(sentence);
  });
});

test('reward names are checked against the known ones, together with everything else', () => {
  const given = { reward: [{ name: 'acoerr' }], rewardParams: { 'grpo-pl': {} }, maxSteps: 0 };
  const message = refused(() => resolveConfig([given], undefined, ['acc', 'acoer', 'grpo-lp']));
  expect(message).toContain('reward.0.name: there is no reward "acoerr"; did you mean `acoer`?');
  expect(message).toContain('rewardParams.grpo-pl: there is no reward "grpo-pl"; did you mean `grpo-lp`?');
  expect(message).toContain('maxSteps: must be at least 1');
});

describe('files and assignments', () => {
  const directory = mkdtempSync(join(tmpdir(), 'acoer-config-'));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  const file = (name: string, text: string) => {
    const path = join(directory, name);
    writeFileSync(path, text);
    return path;
  };

  test('YAML and JSON read the same', () => {
    const yaml = file('a.yaml', 'model: tiny\nlearningRate: 1e-4\nreward:\n  - {name: acc, weight: 2}\n');
    const json = file(
      'a.json',
      '{"model": "tiny", "learningRate": 1e-4, "reward": [{"name": "acc", "weight": 2}]}',
    );
    expect(readConfigFile(yaml)).toEqual(readConfigFile(json));
    expect(resolveConfig([readConfigFile(yaml)])).toMatchObject({ learningRate: 1e-4 });
    expect(readConfigFile(file('empty.yaml', '# nothing\n'))).toEqual({});
  });

  test('a file that is missing, broken or not a map', () => {
    const none = join(directory, 'none.yaml');
    expect(refused(() => readConfigFile(none))).toBe(`Cannot read the configuration ${none}: no such file`);
    expect(refused(() => readConfigFile(file('b.yaml', '{a: [')))).toContain('neither YAML nor JSON');
    // Reading it would take hours.
    const keys = file('keys.yaml', '? '.repeat(500));
    expect(refused(() => readConfigFile(keys))).toBe(
      `${keys} is neither YAML nor JSON: a key that holds lists or maps as keys.`,
    );
    // The library quotes three characters, of which one is a line's end.
    const escape = file('escape.yaml', '"\\xa\nb"');
    expect(refused(() => readConfigFile(escape))).toBe(
      `${escape} is neither YAML nor JSON: Invalid escape sequence \\xa at line 1, column 2.`,
    );
    const rows = file('rows.jsonl', '{"problem":"1+1","answer":"2"}\n{"problem":"1+2","answer":"3"}\n');
    expect(refused(() => readConfigFile(rows))).toMatch(
      /^[^\n]*rows\.jsonl is neither YAML nor JSON: [^\n]* at line 2, column 1\. If it is training data, use --set dataset=[^\n]*rows\.jsonl\.$/,
    );
    const csv = file('rows.csv', 'problem,answer\n1+1,2\n');
    expect(refused(() => readConfigFile(csv))).toContain('If it is training data, use --set dataset=');
    expect(refused(() => readConfigFile(file('c.yaml', '- 1\n')))).toContain('must hold settings');
    for (const text of [
      '__proto__: {seed: 1}\n',
      '{"rewardParams": {"acoer": {"__proto__": {}}}}',
      'reward: [{name: acc, __proto__: {}}]\n',
    ]) {
      expect(refused(() => readConfigFile(file('d.yaml', text)))).toContain('sets `__proto__`');
    }
    expect(refused(() => parseAssignments(['reward=[{name: acc, __proto__: {}}]']))).toContain(
      'sets `__proto__`',
    );
    // A map that holds itself is for the schema to refuse.
    expect(Object.keys(readConfigFile(file('e.yaml', 'rewardParams: &x {acoer: *x}\n')))).toEqual([
      'rewardParams',
    ]);
  });

  test('what the parser would only warn about is refused, and nothing is printed', () => {
    const warned = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    const tag = file('tag.yaml', 'model: !!\u001b[31mred tiny\n');
    expect(refused(() => readConfigFile(tag))).toContain('tag.yaml is neither YAML nor JSON: ');
    expect(refused(() => parseAssignments(['model=!own tiny']))).toContain('Unresolved tag: !own');
    expect(refused(() => resolveConfig([readConfigFile(file('key.yaml', '? [a]\n: 1\n'))]))).toContain(
      '[ a ]',
    );
    expect(warned).not.toHaveBeenCalled();
    warned.mockRestore();
  });

  test('assignments parse values as YAML', () => {
    const layer = parseAssignments([
      'maxSteps=3',
      'delta=null',
      'targetModules=[q_proj, v_proj]',
      'name=x',
      'learningRate=1e-3',
    ]);
    expect(layer).toEqual({
      maxSteps: 3,
      delta: null,
      targetModules: ['q_proj', 'v_proj'],
      name: 'x',
      learningRate: 1e-3,
    });
  });

  test.each(['maxSteps', '=3', 'a..b=1', '__proto__.x=1'])('a bad assignment: %s', (text) => {
    expect(refused(() => parseAssignments([text]))).toContain(`--set ${text}`);
  });
});

test('every setting is described with its default in the schema', () => {
  const rows = describeConfig();
  const defaults = resolveConfig([], 'paper') as Record<string, unknown>;
  expect(rows.map((row) => row.name).sort()).toEqual(Object.keys(defaults).sort());
  for (const row of rows) {
    expect(row.description.length).toBeGreaterThan(10);
    expect(row.default).toEqual(defaults[row.name]);
    expect(row.type).not.toBe('any');
  }
  expect(describeConfigMarkdown()).toContain('- `numGenerations` (integer, default `16`):');
});

describe('the example files', () => {
  const folder = join(__dirname, '..', '..', 'configs');
  const resolved = (name: string) => resolveConfig([readConfigFile(join(folder, name))]);

  test('match the presets', () => {
    expect(resolved('tiny.yaml')).toEqual(resolveConfig([], 'tiny'));
    expect(resolved('slide.yaml')).toEqual(resolveConfig([{ reward: 'grpo-lp' }], 'slide'));
  });
});

describe('settings of rewards', () => {
  test('maps of modules and parameters are merged', () => {
    const config = resolveConfig([
      { rewardModules: { a: '/x/a.mjs', b: '/x/b.mjs' } },
      { rewardModules: { b: '/y/b.mjs' }, reward: 'b' },
    ]);
    expect(config.rewardModules).toEqual({ a: '/x/a.mjs', b: '/y/b.mjs' });
  });

  test('module names may be used as rewards but must not shadow known rewards', () => {
    const named = { reward: 'mine', rewardModules: { mine: '/x/mine.mjs' } };
    expect(resolveConfig([named], undefined, ['acc']).reward).toBe('mine');
    const message = refused(() => resolveConfig([{ rewardModules: { acc: '/x.mjs' } }], undefined, ['acc']));
    expect(message).toMatch(/rewardModules\.acc: this name is already taken/);
  });

  test('contradictions are rejected', () => {
    expect(
      refused(() =>
        resolveConfig([{ multiObjectiveAggregation: 'normalize_then_sum', scaleRewards: 'batch' }]),
      ),
    ).toMatch(/scaleRewards: has no effect/);
    expect(refused(() => resolveConfig([{ numRemainsInGroup: 5 }]))).toMatch(
      /numRemainsInGroup: is 5, more than numGenerations = 4/,
    );
  });

  test('authors-code counts characters and uses their controller', () => {
    const config = resolveConfig([{ model: '/models/Qwen3-1.7B' }], 'authors-code');
    expect(config).toMatchObject({ beta: 0.001, warmupRatio: 0.05, weightDecay: 0, promptsPerStep: 1 });
    expect(config.rewardParams.acoer).toMatchObject({ lengthUnit: 'chars', initialBudget: 4096 });
  });
});

test('settings stored by the previous version are read under their new names', () => {
  const stored = { lossType: 'sapo', sapoTemperaturePos: 2, sapoTemperatureNeg: 1.05, vespoKPos: 2, seed: 7 };
  const settings = currentSettings(stored);
  expect(settings).toEqual({
    lossType: 'sapo',
    seed: 7,
    lossParams: { sapo: { temperaturePos: 2, temperatureNeg: 1.05 } },
  });
  expect(resolveConfig([settings]).lossParams['sapo']).toEqual({ temperaturePos: 2, temperatureNeg: 1.05 });
  expect(currentSettings({ lossType: 'grpo', vespoKPos: 2 })).toEqual({ lossType: 'grpo' });
});
