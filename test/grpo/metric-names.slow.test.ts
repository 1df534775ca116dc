/** Runs write exactly the metrics that src/base/metric-names.ts lists. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConfigInput } from '../../src/config';
import { createEngine } from '../../src/engine/engine';
import { train, type SamplerMaker } from '../../src/train';
import { isKnownMetric, METRIC_FAMILIES, METRICS, type KnownMetrics } from '../../src/base/metric-names';
import { monitorMetrics } from '../../src/monitor';
import { registerReward } from '../../src/rewards/registry';
import { readMetrics } from '../../src/run';
import { sft } from '../../src/sft';
import type { StepMetrics } from '../../src/base/types';
import { groupsInProcess, trainRank } from '../helpers/ranks-in-process';

const root = mkdtempSync(join(tmpdir(), 'acoer-metric-names-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const reward = (name: string, params: Record<string, unknown> = {}) => ({ name, weight: 1, params });

/** Short runs of the embedded model that together write every number a run on a CPU can have. */
const RUNS: Readonly<Record<string, ConfigInput>> = {
  'acoer, evaluations, a memory limit': {
    maxSteps: 4,
    evalSteps: 2,
    evalProblems: 4,
    evalSampledProblems: 4,
    memoryLimitBytes: 2 ** 30,
    monitor: { preset: 'default', spanGroups: 8 },
  },
  'rewards with state, KL, batches used twice': {
    reward: [reward('a-dlp'), reward('hapo'), reward('laser-d', { monitorSteps: 1 }), reward('short-rl')],
    beta: 0.01,
    temperature: 1.3,
    numIterations: 2,
    maxSteps: 6,
  },
  cispo: { lossType: 'cispo', maxSteps: 1 },
  vespo: { lossType: 'vespo', maxSteps: 1 },
  sapo: { lossType: 'sapo', maxSteps: 1 },
  'corrected for the sampler, the tokens of highest entropy': {
    importanceSamplingCorrection: 'token_truncate',
    topEntropyQuantile: 0.2,
    offPolicyMaskThreshold: 0.1,
    maxSteps: 1,
  },
  'dropout, sequence level': { loraDropout: 0.1, importanceSamplingLevel: 'sequence', maxSteps: 1 },
  'an answer in no completion': { maxCompletionLength: 4, maxSteps: 1 },
  'groups in flight': { groupsInFlight: 12, maxSteps: 3 },
  speculation: { numSpeculativeTokens: 4, maxSteps: 1 },
};

const RETRIES = 'a sampler that counts retries';
const SUPERVISED = 'a supervised run';
const RANKS = 'two ranks';

let written: Map<string, StepMetrics[]>;
beforeAll(async () => {
  written = new Map();
  for (const [name, config] of Object.entries(RUNS)) {
    const out = join(root, String(written.size));
    const small = { evalProblems: 0, evalSampledProblems: 0, completionsSteps: 0, saveSteps: 0 };
    await (await train({ model: 'tiny', ...small, ...config }, { out })).result();
    written.set(name, readMetrics(join(out, 'metrics.jsonl')));
  }
  const counted = join(root, 'retries');
  const sampler: SamplerMaker = ({ engineSampler }) => ({
    follow: (version) => engineSampler.follow(version),
    sample: async (...given) => ({ ...(await engineSampler.sample(...given)), retries: 0 }),
  });
  const none = { evalProblems: 0, evalSampledProblems: 0, completionsSteps: 0, saveSteps: 0, maxSteps: 1 };
  await (await train({ model: 'tiny', ...none }, { out: counted, sampler })).result();
  written.set(RETRIES, readMetrics(join(counted, 'metrics.jsonl')));
  const out = join(root, 'supervised');
  const dataset = [1, 2, 3].map((i) => ({ prompt: `${i}+1=`, completion: `${i + 1}` }));
  await sft({ model: 'tiny', epochs: 1, evalExamples: 1 }, { dataset, out });
  written.set(SUPERVISED, readMetrics(join(out, 'metrics.jsonl')));
  const engine = await createEngine({ device: 'cpu', threads: 1 });
  const two = groupsInProcess(2).map((group) =>
    trainRank(join(root, `rank-${group.rank}`), engine, group, { maxSteps: 1 }),
  );
  written.set(
    RANKS,
    (await Promise.all(two)).flatMap(({ steps }) => steps.map(({ metrics }) => metrics)),
  );
  await engine.dispose();
});

test.each(Object.keys(RUNS))('%s: every number is in the registry', (name) => {
  const names = new Set(written.get(name)!.flatMap((line) => Object.keys(line)));
  expect(names.size).toBeGreaterThan(40);
  expect([...names].filter((key) => !isKnownMetric(key))).toEqual([]);
});

test('two ranks: every number is in the registry, and all write the same names', () => {
  const [first, second] = written.get(RANKS)!.map((line) => Object.keys(line));
  expect(first).toContain('ranks/tokens_per_second/1');
  expect(first!.filter((key) => !isKnownMetric(key))).toEqual([]);
  expect(second).toEqual(first);
});

test('a supervised run: every number is in the registry', () => {
  const names = Object.keys(written.get(SUPERVISED)!.at(-1)!);
  expect(names).toContain('eval/loss');
  expect(names.filter((key) => !isKnownMetric(key))).toEqual([]);
});

test('every number in the registry was written by one of them', () => {
  const names = [...written.values()].flat().flatMap((line) => Object.keys(line));
  const seen = new Set(names);
  expect(Object.keys(METRICS).filter((name) => !seen.has(name))).toEqual([]);
  for (const { pattern } of Object.values(METRIC_FAMILIES))
    expect(names.filter((name) => pattern.test(name))).not.toEqual([]);
});

test("a user's reward writes metrics under its own names", async () => {
  registerReward('counting', {
    score: () => 0,
    initialState: () => ({ batches: 0 }),
    observe: ({ batches }: { batches: number }) => ({ batches: batches + 1 }),
    metrics: ({ batches }) => ({ 'counting/batches': batches }),
  });
  const out = join(root, 'counting');
  const small = { evalProblems: 0, evalSampledProblems: 0, completionsSteps: 0, saveSteps: 0, maxSteps: 1 };
  await (await train({ model: 'tiny', reward: 'counting', ...small }, { out })).result();
  const [line] = readMetrics(join(out, 'metrics.jsonl'));
  expect(line!['counting/batches']).toBe(1);
  expect(isKnownMetric('counting/batches')).toBe(false);
});

/** Checked by `npm run check:types`. */
export function misspeltNamesDoNotCompile(metrics: StepMetrics, known: KnownMetrics): void {
  const thinking: number | undefined = metrics['thinking/mean'];
  // @ts-expect-error a step may lack a number
  const sure: number = metrics['thinking/mean'];
  // @ts-expect-error no such name
  known['thinking/maen'] = thinking;
  // @ts-expect-error no such name
  const read: unknown = known['thinking/maen'];
  // @ts-expect-error no such name
  const made: KnownMetrics = { 'thinking/maen': 1 };
  const ofFamily: KnownMetrics = { 'rewards/acoer/mean': 1 };
  // @ts-expect-error no such name
  const state: unknown = monitorMetrics({} as never)['monitor/stat'];
  throw new Error(String([sure, read, made, ofFamily, state]));
}
