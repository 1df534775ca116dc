/** A sweep's runs with all that its tables are made of, by method. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { AcoerError, errorMessage } from '../base/errors';
import { groupBy } from '../base/group-by';
import { readRun, type RunData } from '../report';
import { readSummary, type RunSummary } from '../train';
import { guardOnset, paperCollapse, thresholdOf, type Collapse } from './collapse';
import { evalFoldersOf, readEvalFolder, type Evaluated } from './eval-folders';
import { readSweep, runPath, type Sweep, type SweepRun } from './folder';
import { evaluationsOf, type Evaluations, type Measured } from './measured';

export interface RunResult {
  run: SweepRun;
  path: string;
  /** null: it has not begun, or cannot be read. */
  data: RunData | null;
  evaluations: Evaluations;
  paper: Collapse;
  /** Mean thinking tokens below which the paper's criterion counts; null: unknown. */
  threshold: number | null;
  /** Step of the guard's first report of a collapse; null: none. */
  guard: number | null;
}

/** The runs that differ in their seed alone. */
export interface Method {
  name: string;
  /** In the order of the sweep; of its colour in figures. */
  index: number;
  /** Name of its reward; several joined by +. */
  reward: string;
  runs: RunResult[];
}

export interface SweepResults {
  path: string;
  sweep: Sweep;
  methods: Method[];
  /** Benchmarks in the order of the table's columns; the first is that of the runs' own evaluations. */
  benchmarks: string[];
  evaluated: Evaluated[];
  /** What is missing, in sentences. */
  notes: string[];
}

const rewardOf = ({ settings }: SweepRun, data: RunData | null): string => {
  const reward: unknown = data?.config?.reward ?? settings.reward ?? 'unknown';
  const names = [reward]
    .flat()
    .map((one: unknown) =>
      typeof one === 'object' && one !== null && 'name' in one ? String(one.name) : String(one),
    );
  return names.join(' + ');
};

/** A run that its guard ended has no summary. */
function summaryOf({ directory }: RunData): RunSummary | null {
  return existsSync(directory.summary()) ? readSummary(directory) : null;
}

async function resultOf(sweepPath: string, sweep: Sweep, run: SweepRun, notes: string[]): Promise<RunResult> {
  const path = runPath(sweepPath, run);
  const empty: RunResult = {
    run,
    path,
    data: null,
    evaluations: new Map(),
    paper: { onset: null, decidable: false },
    threshold: null,
    guard: null,
  };
  if (!existsSync(join(path, 'config.json'))) return empty;
  try {
    const data = readRun(path);
    const { lines, config } = data;
    const benchmark = config?.evalDataset ?? config?.dataset ?? 'evaluation';
    const summary = summaryOf(data);
    const evaluations = await evaluationsOf(path, benchmark, sweep.evaluation.kind, { summary, lines });
    const [primary, own = []] = [...evaluations][0] ?? [benchmark];
    const threshold =
      config === null
        ? null
        : thresholdOf(
            primary,
            config,
            own.find(({ step }) => step === 0),
          );
    const paper = threshold === null ? empty.paper : paperCollapse(own, threshold);
    return { ...empty, data, evaluations, paper, threshold, guard: guardOnset(run, lines) };
  } catch (error) {
    if (!(error instanceof AcoerError)) throw error;
    notes.push(`${run.folder} is left out: ${errorMessage(error)}`);
    return empty;
  }
}

/** Adds what `acoer eval` measured to the runs that it measured; the base is that of every run. */
function addEvaluated(runs: readonly RunResult[], evaluated: readonly Evaluated[]): void {
  for (const { run, evaluations } of runs) {
    const name = run.folder.split('/').at(-1)!;
    const own = evaluated.filter(({ runName }) => runName === name);
    for (const [benchmark, entries] of groupBy(own, (one) => one.benchmark)) {
      // The run's own evaluation on the same data was made at the same steps in all runs.
      if (evaluations.has(benchmark)) continue;
      const base = evaluated.find((one) => one.benchmark === benchmark && one.label === 'base');
      const measured = entries.map((one) => one.measured).filter(({ step }) => step > 0);
      const all = base === undefined ? measured : [{ ...base.measured, step: 0 }, ...measured];
      evaluations.set(
        benchmark,
        all.sort((a, b) => a.step - b.step),
      );
    }
  }
}

/**
 * @param more folders of `acoer eval` besides those in the sweep's `evals/`
 * @throws BAD_INPUT if `path` is no sweep, or naming a damaged file of an evaluation
 */
export async function readResults(path: string, more: readonly string[] = []): Promise<SweepResults> {
  const sweep = readSweep(path);
  const notes: string[] = [];
  const runs: RunResult[] = [];
  for (const run of sweep.runs) runs.push(await resultOf(path, sweep, run, notes));
  const evaluated: Evaluated[] = [];
  for (const folder of [...evalFoldersOf(path), ...more]) evaluated.push(...(await readEvalFolder(folder)));
  addEvaluated(runs, evaluated);
  const methods = [...groupBy(runs, ({ run }) => run.method)].map(([name, own], index): Method => {
    const known = own.find(({ data }) => data !== null) ?? own[0];
    return { name, index, reward: rewardOf(known.run, known.data), runs: own };
  });
  const benchmarks = [...new Set(runs.flatMap(({ evaluations }) => [...evaluations.keys()]))];
  return { path, sweep, methods, benchmarks, evaluated, notes };
}

export const baseOf = ({ evaluations }: RunResult, benchmark: string): Measured | null =>
  evaluations.get(benchmark)?.find(({ step }) => step === 0) ?? null;

/** The evaluation at the end of a run that is done; null: it is not, or has none. */
export function endOf({ run, evaluations }: RunResult, benchmark: string): Measured | null {
  const last = evaluations.get(benchmark)?.at(-1);
  return run.state === 'done' && last !== undefined && last.step > 0 ? last : null;
}

/** The step at which the run collapsed, by the paper's criterion, else by its guard; null: it did not. */
export const collapsedAt = ({ paper, guard }: RunResult): number | null => paper.onset ?? guard;

/** The step of the most accurate evaluation before a collapse; of several, the one with the shortest thinking. */
export function peakStep(result: RunResult): number | null {
  const end = collapsedAt(result) ?? Infinity;
  const own = [...result.evaluations.values()][0]?.filter(({ step }) => step > 0) ?? [];
  const before = own.filter(({ step }) => step < end);
  const better = (a: Measured, b: Measured) => b.accuracy - a.accuracy || a.thinkingTokens - b.thinkingTokens;
  return [...(before.length > 0 ? before : own)].sort(better)[0]?.step ?? null;
}

/** What a benchmark says of a run at a step; null: it was not evaluated there. */
export const atStep = ({ evaluations }: RunResult, benchmark: string, step: number | null): Measured | null =>
  evaluations.get(benchmark)?.find((one) => one.step === step) ?? null;

/** The methods with the reward ACOER, those called so first: several if the grid has other axes than the seed. */
export function acoerOf(methods: readonly Method[]): Method[] {
  const found = methods.filter(({ reward }) => reward === 'acoer');
  const called = found.filter(({ name }) => /^acoer( |$)/.test(name));
  return called.length > 0 ? called : found;
}
