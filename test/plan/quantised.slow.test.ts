/** Plans of quantised bases and 8-bit keys and values: what issue 41 asks of them, and what they advise. */
import { resolveConfig, type ConfigInput } from '../../src/config';
import {
  marginOf,
  namedDevice,
  plannedModel,
  planRun,
  type PlanDevice,
  type PlannedModel,
} from '../../src/plan';
import { planTable } from '../../src/plan/table';
import { resolveTrainConfig } from '../../src/train/inputs';
import { acoer } from '../helpers/cli';

let models: Record<'small' | 'large' | 'smol', PlannedModel>;
beforeAll(async () => {
  const names = ['Qwen/Qwen3-1.7B', 'Qwen/Qwen3-8B', 'HuggingFaceTB/SmolLM2-135M-Instruct'];
  const [small, large, smol] = await Promise.all(names.map(plannedModel));
  models = { small: small!, large: large!, smol: smol! };
});

const paper = (changes: ConfigInput) => resolveConfig([changes], 'paper');
const plan = (model: PlannedModel, card: string, changes: ConfigInput = {}) =>
  planRun({ config: paper(changes), model, device: namedDevice(card, 'bfloat16') });
const itemOf = ({ memory }: ReturnType<typeof plan>, name: RegExp) =>
  memory.items.find((item) => name.test(item.name))?.bytes;

test("the paper's run on an A6000: at most 16 hours with 8-bit keys and values and four groups in flight", () => {
  const fast = plan(models.small, 'A6000', { kvCacheDtype: 'int8', groupsInFlight: 4 });
  expect(fast.memory.kv!.slots).toBe(64);
  expect(fast.time!.hours.expected).toBeLessThan(16);
  // Not by other assumptions: what does not read the cache takes as long as before.
  const before = plan(models.small, 'A6000', { groupsInFlight: 4 });
  expect(fast.time!.mean.expected.backward).toBe(before.time!.mean.expected.backward);
  expect(fast.time!.mean.expected.forward).toBe(before.time!.mean.expected.forward);
});

test("Qwen3-8B on 24 GB: nf4 has room for 8 sequences of the paper's caps, bfloat16 for 4", () => {
  const [plain, nf4] = ([null, 'nf4'] as const).map((quantization) =>
    plan(models.large, '4090', { quantization }),
  );
  expect(plain!.memory.kv!.fullSlots).toBe(4);
  expect(nf4!.memory.kv!.fullSlots).toBeGreaterThanOrEqual(8);
  expect([plain, nf4].map((one) => marginOf(one!.memory, one!.device).grade)).toEqual(['tight', 'roomy']);
  expect(itemOf(nf4!, /base weights, linear layers in nf4/)! / 1e9).toBeCloseTo(6.07, 2);
  // gate and up in one, in bfloat16.
  expect(itemOf(nf4!, /dequantised matrix/)).toBe(2 * 12_288 * 4096 * 2);
});

test('a CPU holds no dequantised matrix; loading needs one linear beside what is kept', () => {
  const device: PlanDevice = { ...namedDevice('A6000', 'bfloat16'), kind: 'cpu', ceilings: null };
  const config = resolveConfig([{ quantization: 'nf4', maxCompletionLength: 256, evalProblems: 0 }], 'paper');
  const smol = planRun({ config, model: models.smol, device });
  expect(itemOf(smol, /dequantised/)).toBeUndefined();
  expect(itemOf(smol, /before it is quantised/)).toBe(576 * 1536 * 3);
  const layers = 30 * (2 * 576 * 576 + 2 * 192 * 576 + 3 * 1536 * 576);
  const rest = models.smol.shape.vocabSize * 576 + 61 * 576;
  expect(itemOf(smol, /base weights/)! / (layers * 0.516 + 2 * rest)).toBeCloseTo(1, 3);
});

describe('advice', () => {
  const settings = (of: ReturnType<typeof plan>) =>
    Object.fromEntries(of.changes!.map(({ setting, to }) => [setting, to]));

  test('a model that does not fit fits with a quantised base, int8 where that is enough', () => {
    expect(settings(plan(models.large, '4090', { evalProblems: 0 })).quantization).toBe('nf4');
    const device = { ...namedDevice('A6000', 'bfloat16'), freeBytes: 20e9 };
    const short = planRun({ config: paper({}), model: models.large, device });
    expect(short.fits).toBe(false);
    expect(settings(short)).toEqual({ quantization: 'int8' });
    expect(marginOf(short.memory, device)).toMatchObject({ grade: 'short' });
  });

  test('what saves time names how much, and keeps its promise', () => {
    const before = plan(models.small, 'A6000');
    const advised = before.changes!.find(({ setting }) => setting === 'kvCacheDtype')!;
    const percent = Number(/^(\d+)% less time/.exec(advised.why)![1]);
    const after = plan(models.small, 'A6000', { kvCacheDtype: 'int8' });
    const saved = 100 * (1 - after.time!.hours.expected / before.time!.hours.expected);
    expect(Math.abs(saved - percent)).toBeLessThan(3);
    expect(plan(models.small, 'A6000', { kvCacheDtype: 'int8', quantization: 'nf4' }).changes).toEqual([]);
  });

  test('more groups in flight than slots: as many slots as sequences', () => {
    const many = plan(models.small, 'A6000', { kvCacheDtype: 'int8', groupsInFlight: 8, maxSlots: 32 });
    expect(settings(many).maxSlots).toBe(128);
  });

  test('a base whose weights are trained is not quantised', () => {
    const full = plan(models.large, '4090', { full: true, dtype: 'float32' });
    expect(full.fits).toBe(false);
    expect(full.changes).toBeNull();
  });
});

test('nf4 is refused where blocks would span rows', async () => {
  const { code, stderr } = await acoer(
    'plan',
    '--preset',
    'tiny',
    '--device-name',
    'A6000',
    '--set',
    'quantization=nf4',
  );
  expect(code).toBe(2);
  expect(stderr).toMatch(/nf4 needs linear layers .* multiples of 64, which those of tiny are not; use int8/);
});

describe('the table', () => {
  test('has the figures of single plans, and what is short has neither slots nor hours', async () => {
    const config = resolveTrainConfig([{ evalProblems: 0 }], 'paper');
    const asked = { models: ['Qwen/Qwen3-14B'], cards: ['4090', 'A6000'] };
    const { rows } = await planTable(config, asked, { promptTokens: 150 });
    expect(rows.map(({ quantization }) => quantization)).toEqual([null, 'int8', 'nf4']);
    expect(rows[0]!.cells[0]).toMatchObject({ margin: { grade: 'short' }, slots: null, hours: null });
    const single = planRun({
      config: { ...config, model: 'Qwen/Qwen3-14B', quantization: 'nf4' },
      model: await plannedModel('Qwen/Qwen3-14B'),
      device: namedDevice('A6000', 'bfloat16'),
      promptTokens: 150,
    });
    expect(rows[2]!.cells[1]).toMatchObject({
      hours: single.time!.hours.expected,
      fullSlots: single.memory.kv!.fullSlots,
      margin: { bytes: single.device.freeBytes - single.memory.peakBytes },
    });
  });

  test('is printed with models down and cards across; its options are for it alone', async () => {
    const words = ['plan', '--preset', 'paper', '--device-name', '4090,H100', '--models', 'Qwen/Qwen3-0.6B'];
    const { code, stdout } = await acoer(...words, '--table');
    expect(code).toBe(0);
    expect(stdout).toMatch(/RTX 4090, 25\.8 GB +NVIDIA H100/);
    expect(stdout).toMatch(/Qwen3-0\.6B +bfloat16 +[\d.]+ GB to spare, \d+ slots, [\d.]+ h/);
    expect(await acoer(...words)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--models is for --table'),
    });
  });
});
