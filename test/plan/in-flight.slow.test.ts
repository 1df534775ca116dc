/** The time of sampling with groups in flight: by hand, and what it saves the paper's run. */
import { resolveConfig, type ConfigInput } from '../../src/config';
import { namedDevice, planRun } from '../../src/plan';
import { inFlightSeconds } from '../../src/plan/decode-time';
import { SHAPES } from '../../src/plan/shapes';

const settings = {
  groupsInFlight: 2,
  maxStaleness: 8,
  promptsPerStep: 1,
  stepsPerGeneration: 1,
  numIterations: 1,
  maxSteps: 10,
};
const roomy = { pagePositions: 64, pages: 1000, fullPages: 10, slots: 100 };
const PROMPT = 20;
/** A step takes a second, however many sequences decode; a prompt as many as it has tokens. */
const clock = { decodeStep: () => 1, prefill: (tokens: number) => tokens };

function secondsOf(groups: number[][], more: Partial<typeof settings> = {}, kv: Partial<typeof roomy> = {}) {
  const cache = { ...roomy, ...kv } as Parameters<typeof inFlightSeconds>[3];
  const work = inFlightSeconds({ ...settings, ...more }, PROMPT, groups, cache, clock);
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}

const repeated = (groups: number[][], times: number) => Array.from({ length: times }, () => groups).flat();

test('groups of one length, two at a time: two batches for the time of one', () => {
  // Both are complete after 4 steps, the second one waits a batch; each prompt is prefilled once.
  const { decode, prefill } = secondsOf(repeated([[4, 4]], 84));
  expect(decode).toBeCloseTo(2, 1);
  expect(prefill).toBeCloseTo(PROMPT, 0);
});

test('a long completion decodes beside those of later batches, and is prefilled with each', () => {
  // While 90 tokens are made, nine short groups come and go; the long one is complete with the last of them and waits
  // a batch: ten batches in 90 steps.
  const { decode, prefill } = secondsOf(repeated([[90], ...Array<number[]>(9).fill([10])], 40), {
    maxStaleness: 20,
  });
  expect(decode).toBeCloseTo(9, 0);
  // Nine short prompts, and the long one's 20, 30, ..., 100 tokens.
  expect(Math.abs(prefill - (9 * PROMPT + 9 * 60) / 10)).toBeLessThan(1);
});

test('a tight bound waits for the long one', () => {
  const groups = repeated([[90], ...Array<number[]>(9).fill([10])], 40);
  const [tight, loose] = [secondsOf(groups, { maxStaleness: 1 }), secondsOf(groups, { maxStaleness: 20 })];
  expect(tight.decode).toBeGreaterThan(loose.decode);
});

test('with one slot sequences decode one after the other', () => {
  expect(secondsOf(repeated([[4, 4]], 84), {}, { slots: 1 }).decode).toBeCloseTo(8, 0);
});

test("the paper's run on an A6000 takes at most 20 hours with four groups in flight", () => {
  const model = {
    shape: SHAPES['qwen3-1.7b'],
    storedDtype: 'bfloat16',
    maxPositions: 40_960,
    tokenizerBytes: 0,
  } as const;
  const device = namedDevice('A6000', 'bfloat16');
  const plan = (changes: ConfigInput = {}) =>
    planRun({ config: resolveConfig([changes], 'paper'), model, device });
  const [own, inFlight] = [plan(), plan({ groupsInFlight: 4, maxSlots: 48 })];
  expect(own.time!.hours.expected).toBeGreaterThan(25);
  expect(inFlight.time!.hours.expected).toBeLessThan(20);
  expect(inFlight.memory.kv!.slots).toBe(48);
  // A completion that goes on is held as a prompt, up to its full length.
  expect(inFlight.memory.kv!.heldBytes).toBeGreaterThan(8192 * inFlight.memory.kv!.bytesPerToken);
  expect(inFlight.time!.mean.expected.prefill).toBeGreaterThan(1);
  expect(inFlight.time!.mean.expected.backward).toBe(own.time!.mean.expected.backward);
  expect(inFlight.fits).toBe(true);
});
