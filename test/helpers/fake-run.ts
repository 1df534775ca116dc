/** Runs on the fake engine, each in its own folder. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readMetrics } from '../../src/run';
import type { StepMetrics } from '../../src/base/types';
import { FakeEngine, type FakeFaults } from './fake-engine';
import { fakeDataset, fakeEvaluation, fakeTokenizer } from './fake-tokenizer';
import type { Given } from './given';

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
