/**
 * The plan against independently computed figures: the engine's own limits, a numpy roofline, Qwen3-1.7B's
 * arithmetic.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { resolveConfig, type ConfigInput } from '../../src/config';
import { TINY_MODEL } from '../../src/models';
import {
  assertFits,
  namedDevice,
  planRun,
  readPlannedModel,
  stepTotal,
  type Plan,
  type PlannedModel,
  type PlanDevice,
  type PlanInput,
} from '../../src/plan';
import { SHAPES } from '../../src/plan/shapes';

const ROOFLINE = JSON.parse(
  readFileSync(join(__dirname, '../fixtures/plan/roofline.json'), 'utf8'),
) as Record<'first' | 'last', { decode: number; training: number; trainingWithRecomputation: number }>;

const qwen = {
  shape: SHAPES['qwen3-1.7b'],
  storedDtype: 'bfloat16',
  maxPositions: 40_960,
  tokenizerBytes: 0,
} as const;
const paper = (changes: ConfigInput = {}) => resolveConfig([changes], 'paper');
const plan = (changes: ConfigInput = {}, more: Partial<PlanInput> = {}) =>
  planRun({ config: paper(changes), model: qwen, device: namedDevice('A6000', 'bfloat16'), ...more });

const item = (phase: string, name: RegExp, of = plan()): number =>
  of.memory.items.find((i) => i.phase === phase && name.test(i.name))!.bytes;

const host = (freeBytes: number): PlanDevice => ({
  ...namedDevice('A6000', 'bfloat16'),
  name: 'a small machine',
  kind: 'cpu',
  totalBytes: freeBytes,
  freeBytes,
  ceilings: null,
});

describe('memory of the paper’s run', () => {
  test('weights 3.441 GB; 17,432,576 trained parameters with two fp32 moments', () => {
    expect(item('always', /base weights/)).toBe(2 * 1_720_574_976);
    expect(item('always', /AdamW/)).toBe(3 * 4 * 17_432_576);
  });

  test('16 sequences of 150 + 8,192 tokens take 33 pages of 256 positions each, if the memory allows', () => {
    const roomy = plan({ kvBytes: 16.2e9 });
    expect(roomy.memory.kv!.fullSlots).toBe(16);
    const bytesPerToken = 2 * 28 * 8 * 128 * 2;
    expect(item('rollout', /KV cache/, roomy)).toBe((16 * 33 * 256 + 160) * bytesPerToken);
  });

  test('an evaluation takes more sequences at a time than all could be of full length', () => {
    const { evaluationKv } = plan().memory;
    expect(evaluationKv).toMatchObject({ slots: 64, wantedSlots: 64, fullPages: 65 });
    expect(evaluationKv!.fullSlots).toBeLessThan(20);
  });

  test('on a GPU the cache gets three quarters of the free memory: the whole group decodes together', () => {
    const { memory, changes, device } = plan();
    expect(memory.kv!.budgetBytes).toBeCloseTo(0.75 * (device.freeBytes - memory.phaseBytes.always), -1);
    expect(memory.kv!.slots).toBe(16);
    expect(changes!.map(({ setting }) => setting)).not.toContain('kvBytes');
  });

  test('on a CPU it gets a quarter, and the plan says how to get more', () => {
    const device = host(48e9);
    const { memory, changes } = plan({}, { device });
    expect(memory.kv!.budgetBytes).toBeCloseTo((device.freeBytes - memory.phaseBytes.always) / 4, -1);
    expect(memory.kv!.fullSlots).toBeLessThan(16);
    expect(changes).toMatchObject([{ setting: 'kvBytes', why: expect.stringContaining('a quarter') }]);
    const { to } = changes![0]!;
    expect(plan({ kvBytes: to as number }, { device }).memory.kv!.fullSlots).toBe(16);
  });

  test('an adapter with fewer targets is smaller by what it leaves out', () => {
    const qOnly = plan({ targetModules: ['q_proj'] });
    expect(item('always', /AdamW/, qOnly)).toBe(3 * 4 * 28 * 16 * (2048 + 2048));
  });

  test('a CPU keeps the activations of as many layers as fit into a quarter of the free memory', () => {
    const onCpu = plan({ microBatchTokens: 16_384 }, { device: host(48e9) });
    const { memory } = onCpu;
    const free = 48e9 - memory.phaseBytes.always;
    const layers = Math.floor((28 * memory.keptTokens) / 16_384);
    expect(layers).toBeGreaterThan(3);
    expect(layers).toBeLessThan(28);
    // 38,912 elements of each layer and token, 6,144 of them in fp32 for attention.
    const layerBytes = 16_384 * (38_912 * 2 + 6_144 * 2);
    const named = new RegExp(`activations of ${layers} of 28 layers`);
    expect(item('training', named, onCpu)).toBe(layers * layerBytes);
    expect((layers + 1) * layerBytes).toBeGreaterThan(free / 4 - 1e9);
    expect(item('training', /inputs of the other layers/, onCpu)).toBe((28 - layers) * 16_384 * 2048 * 2);
  });

  test('a CPU with too little memory recomputes every layer from its input', () => {
    const onCpu = plan({ microBatchTokens: 16_384 }, { device: host(9e9) });
    expect(item('training', /every layer's input/, onCpu)).toBe(28 * 16_384 * 2048 * 2);
  });

  test('a GPU keeps activations in three quarters of the free memory: passes of 14,000 tokens', () => {
    const larger = plan({ microBatchTokens: 16_384 });
    const { memory, device, changes } = larger;
    const kept = item('training', /activations of all layers/, larger);
    expect(kept / 0.75).toBeLessThan(device.freeBytes - memory.phaseBytes.always);
    // 38,912 elements of each layer and token.
    expect(kept).toBe(memory.keptTokens * 28 * 38_912 * 2);
    const { to } = changes!.find(({ setting }) => setting === 'microBatchTokens')!;
    expect(to).toBeLessThanOrEqual(memory.keptTokens);
    const smaller = plan({ microBatchTokens: to as number });
    expect(smaller.time!.mean.expected.recomputation).toBe(0);
    expect(smaller.changes!.map(({ setting }) => setting)).not.toContain('microBatchTokens');
    // The default is what is advised.
    expect(plan().memory.microBatchTokens).toBe(to);
  });
});

describe('time on one A6000 against the numpy roofline of the same model', () => {
  const { time } = plan({ kvBytes: 16e9, evalProblems: 0, microBatchTokens: 16_384 });

  test.each(['first', 'last'] as const)('the %s steps take equally long at the limit', (at) => {
    const { forward, backward, recomputation } = time![at].limit;
    const { decode, training, trainingWithRecomputation } = ROOFLINE[at];
    // The plan draws far fewer lengths than the reference's 40,000 groups.
    expect(Math.abs(time![at].limit.decode / decode - 1)).toBeLessThan(0.05);
    expect(Math.abs((forward + backward) / training - 1)).toBeLessThan(0.05);
    // Passes of more than 14,000 tokens compute their layers again.
    expect(recomputation).toBeGreaterThan(0);
    expect(recomputation).toBeLessThan(1.05 * (trainingWithRecomputation - training));
  });

  test('1,200 steps: 17.4 GPU-hours at the limit', () => {
    expect(time!.hours.limit).toBeGreaterThan(0.92 * 17.4);
    expect(time!.hours.limit).toBeLessThan(1.08 * 17.4);
  });

  test('with our kernels and counted launches at most 30 GPU-hours, evaluations included', () => {
    const { hours } = plan().time!;
    expect(hours.expected).toBeLessThan(30);
    expect(hours.expected).toBeGreaterThan(1.3 * hours.limit);
  });

  test('a reference model costs a forward pass: 2.2 s in the first steps', () => {
    expect(time!.first.limit.scoring).toBe(0);
    const scored = plan({ kvBytes: 16e9, beta: 0.001 }).time!.first.limit;
    expect(scored.scoring).toBeCloseTo(2.2, 0);
  });

  test('64 prompts take 64 times as long to train on as one, although fewer steps are drawn', () => {
    const many = plan({ kvBytes: 16e9, evalProblems: 0, promptsPerStep: 64 }).time!;
    for (const at of ['first', 'last'] as const) {
      expect(Math.abs(many[at].limit.forward / 64 / time![at].limit.forward - 1)).toBeLessThan(0.03);
      expect(Math.abs(many[at].meanTokens / time![at].meanTokens - 1)).toBeLessThan(0.03);
    }
  });

  test('fewer slots decode the same tokens in more steps', () => {
    const narrow = plan({ kvBytes: 8e9, evalProblems: 0, microBatchTokens: 16_384 }).time!;
    expect(narrow.first.limit.decode).toBeGreaterThan(time!.first.limit.decode);
    expect(narrow.first.limit.forward).toBe(time!.first.limit.forward);
  });

  test('evaluations count: before, after, and every evalSteps between', () => {
    expect(plan({ evalSteps: 200 }).time!.evaluation.count).toBe(7);
    expect(plan({ evalSteps: 0 }).time!.evaluation.count).toBe(2);
  });

  test('the phases add up to the step', () => {
    const { forward, backward, recomputation, prefill, decode, scoring, optimizer } = time!.mean.limit;
    const parts = [forward, backward, recomputation, prefill, decode, scoring, optimizer];
    expect(stepTotal(time!.mean.limit)).toBeCloseTo(parts.reduce((a, b) => a + b));
  });
});

describe('several ranks', () => {
  const first = (ranks: number, changes: ConfigInput = {}) => plan(changes, { ranks }).time!.first.limit;

  test('each decodes its share of the group and trains its share of the tokens', () => {
    expect([1, 2, 4, 16].map((ranks) => plan({}, { ranks }).memory.kv!.slots)).toEqual([16, 8, 4, 1]);
    const [one, four] = [first(1), first(4)];
    for (const phase of ['forward', 'backward'] as const) expect(four[phase]).toBeCloseTo(one[phase] / 4, 9);
    expect(four.optimizer).toBe(one.optimizer);
    expect(four.prefill).toBe(one.prefill);
  });

  test('the cache is advised to grow for the sequences of a rank only', () => {
    const kvBytes = (of: Plan) => of.changes!.map(({ setting }) => setting).includes('kvBytes');
    const tight = { kvBytes: 8 * plan().memory.kv!.slotBytes + 1e8 };
    expect([1, 2].map((ranks) => kvBytes(plan(tight, { ranks })))).toEqual([true, false]);
  });

  test('one waits for the longest answer, so more ranks gain less and less', () => {
    const decode = [1, 2, 4, 16].map((ranks) => first(ranks).decode);
    expect(decode).toEqual(decode.toSorted((a, b) => b - a));
    // However few sequences a rank has, it reads all weights for each token.
    expect(decode[0]! / decode[3]!).toBeLessThan(4);
    const hours = [1, 4].map((ranks) => plan({}, { ranks }).time!.hours.limit);
    expect(hours[1]).toBeGreaterThan(hours[0]!);
  });

  test('many prompts: a rank prefills its share of them', () => {
    const many = { promptsPerStep: 64, numGenerations: 8 };
    expect(first(8, many).prefill).toBeCloseTo(first(1, many).prefill / 8, 9);
  });

  test('of a large batch only a part is drawn, in smaller groups', () => {
    const large = { promptsPerStep: 1, numGenerations: 10_000 };
    const [one, three] = [first(1, large), first(3, large)];
    // So many that a third of them takes about a third of the time, in as many slots.
    expect(three.decode / one.decode).toBeGreaterThan(0.3);
    expect(three.decode / one.decode).toBeLessThan(0.37);
  });

  test('with all weights trained each keeps its part of the moments', () => {
    const moments = (ranks: number) => {
      const of = plan({ full: true, dtype: 'float32' }, { ranks });
      return item('always', /moments/, of) - item('always', /base weights/, of);
    };
    expect(moments(4)).toBe(moments(1) / 4);
  });
});

describe('a run that does not fit', () => {
  test('reports the numbers and the settings with which it does fit', () => {
    const tight = plan({}, { device: host(8e9) });
    expect(tight.fits).toBe(false);
    expect(() => assertFits(tight)).toThrow(
      /does not fit on a small machine: .*[\d.]+ GB.*[\d.]+ GB.*--set \w+=\w+.*--ignore-plan/,
    );
    const settings = Object.fromEntries(tight.changes!.map(({ setting, to }) => [setting, to]));
    expect(plan(settings, { device: host(8e9) }).fits).toBe(true);
  });

  test('suggests no unnecessary change', () => {
    const tight = plan({}, { device: host(8e9) });
    for (const { setting } of tight.changes!) {
      const others = tight.changes!.filter((change) => change.setting !== setting);
      const settings = Object.fromEntries(others.map((change) => [change.setting, change.to]));
      expect(plan(settings, { device: host(8e9) }).fits).toBe(false);
    }
  });

  test('says so when no setting helps', () => {
    const hopeless = plan({}, { device: host(2e9) });
    expect(hopeless.changes).toBeNull();
    expect(() => assertFits(hopeless)).toThrow(/needs [\d.]+ GB .* 2\.00 GB is available; no setting/);
  });
});

test('an unknown device is rejected, listing the known ones', () => {
  expect(() => namedDevice('B200', 'bfloat16')).toThrow('choose one of A6000, 4090, A100, H100, H200');
});

describe('under memoryLimitBytes a plan is reduced as the run reduces itself', () => {
  let tiny: PlannedModel;
  beforeAll(async () => {
    tiny = await readPlannedModel(TINY_MODEL);
  });
  const under = (memoryLimitBytes: number | null, more: ConfigInput = {}, freeBytes = 20e9) =>
    planRun({
      config: resolveConfig([{ memoryLimitBytes, ...more }], 'tiny'),
      model: tiny,
      device: host(freeBytes),
      promptTokens: 32,
    });

  // test/e2e/train-out-of-memory.slow.test.ts: under 20 MB a run makes the same completions as without a limit,
  // under 5.5 MB it cannot train on one sequence.
  test('a run that works under 20 MB fits, in smaller passes; under 5.5 MB nothing does', () => {
    const cut = under(20e6);
    expect(cut.fits).toBe(true);
    expect(cut.memory.peakBytes).toBeLessThanOrEqual(cut.device.freeBytes);
    expect(cut.memory.microBatchTokens).toBeLessThan(under(null).memory.microBatchTokens);
    expect(under(5.5e6).fits).toBe(false);
  });

  test('a limit that is large enough changes nothing; a machine that small without a limit is too small', () => {
    const { kv, ...rest } = under(10e9).memory;
    expect(rest.microBatchTokens).toBe(under(null).memory.microBatchTokens);
    expect(kv!.slots).toBe(under(null).memory.kv!.slots);
    expect(under(null, {}, under(20e6).device.freeBytes).fits).toBe(false);
  });
});

test('where servers sample, neither the cache nor the time of sampling is counted', () => {
  const [own, served] = [plan(), plan({ sampler: { type: 'vllm', servers: ['http://sampler-1:8000'] } })];
  expect(served.memory.kv).toBeNull();
  expect(served.memory.phaseBytes.rollout).toBe(0);
  expect(served.memory.phaseBytes.training).toBe(own.memory.phaseBytes.training);
  // Evaluations are still ours.
  expect(served.memory.evaluationKv).toEqual(own.memory.evaluationKv);
  expect(served.fits).toBe(true);
  const [before, after] = [own.time!.mean.expected, served.time!.mean.expected];
  expect(after).toEqual({ ...before, decode: 0, prefill: 0 });
});
