/** Runs on the fake engine, each in its own folder. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readMetrics } from '../../src/run';
import type { StepMetrics } from '../../src/base/types';
import type { GenerateCallOptions, Model } from '../../src/engine/types';
import { train, type TrainEvent } from '../../src/train';
import { FakeEngine, type FakeFaults } from './fake-engine';
import { fakeDataset, fakeEvaluation, fakeTokenizer } from './fake-tokenizer';
import { asCall, type Given } from './given';

const root = mkdtempSync(join(tmpdir(), 'acoer-fake-'));
let folders = 0;

export const removeFakeRuns = () => rmSync(root, { recursive: true, force: true });
export const newFolder = () => join(root, `run-${folders++}`);

export function fakeParts(faults: FakeFaults = {}) {
  const [trainData, evalData] = [fakeDataset(30), fakeEvaluation(30)];
  return { engine: new FakeEngine(faults), tokenizer: fakeTokenizer, trainData, evalData };
}

export function fakeRun(more: Given = {}) {
  return {
    maxSteps: 12,
    maxCompletionLength: 40,
    // The fake's gradients are small; this rate moves its parameters.
    learningRate: 100,
    evalProblems: 20,
    evalSampledProblems: 0,
    evalMaxNewTokens: 60,
    saveSteps: 2,
    keepCheckpoints: null,
    completionsSteps: 0,
    ...fakeParts(),
    out: newFolder(),
    ...more,
  };
}

/** The lines of a run without anything that depends on the clock. */
export const metricsOf = (folder: string): StepMetrics[] =>
  readMetrics(join(folder, 'metrics.jsonl')).map((line) =>
    Object.fromEntries(Object.entries(line).filter(([name]) => !/^(step_time$|time\/|memory\/)/.test(name))),
  );

/** Files with times, and the checksums over them. */
const CLOCKED =
  /^(metrics\.jsonl|SHA256SUMS|progress\.json|rolled-back-\d+\.jsonl|summary\.json|events\.out\.tfevents\..*)$/;

/** The content of every other file of a run. */
export function filesOf(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const paths = names
    .filter(({ name }) => !CLOCKED.test(name))
    .map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(
    paths.sort().map((path) => [path.slice(folder.length + 1), readFileSync(path, 'utf8')]),
  );
}

/** A run of two steps and evaluations: what its calls of `generate` were told, its warnings, its lines. */
export async function toldRun<Option extends keyof GenerateCallOptions>(option: Option, more: Given) {
  const parts = fakeParts();
  const told = new Set<GenerateCallOptions[Option]>();
  const load = parts.engine.loadModel.bind(parts.engine);
  parts.engine.loadModel = async (...given: Parameters<typeof load>) => {
    const model: Model = await load(...given);
    const generate = model.generate.bind(model);
    model.generate = (requests, options) => {
      told.add(options?.[option]);
      return generate(requests, options);
    };
    return model as Awaited<ReturnType<typeof load>>;
  };
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => void (event.type === 'warning' && warnings.push(event.message));
  const settings = fakeRun({ ...parts, maxSteps: 2, evalSteps: 1, onEvent, ...more });
  await (await train(...asCall(settings))).result();
  return { told: [...told], warnings, lines: metricsOf(settings.out) };
}
