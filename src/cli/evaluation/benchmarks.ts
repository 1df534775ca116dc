/** Benchmarks as the command line names them. */
import { type Config, resolveConfig } from '../../config';
import { type Dataset, isEmbeddedTask, loadDataset, loadRunData } from '../../data';
import { badUsage } from '../../base/errors';
import { sha256 } from '../../base/sha256';
import type { JudgingSettings } from '../../train';
import { showDownload } from '../download';
import { dataRules } from '../judge';
import type { EvalFlags } from './flags';

export interface Benchmark {
  /** Used in tables and file names. */
  name: string;
  dataset: Dataset;
  /** Number of problems evaluated, from the start of the data set. */
  problems: number;
  /** Identifies the set of problems. */
  problemsSha256: string;
  /** Prompt and token limit. */
  protocol: Pick<Config, 'promptTemplate' | 'enableThinking' | 'evalMaxNewTokens'>;
}

/** Splits `math500=rows.jsonl`, which evaluates the user's own data under a benchmark's name. */
function splitName(text: string): { name: string; source: string } {
  const named = /^([\w.-]+)=(.+)$/.exec(text);
  if (named !== null) return { name: named[1]!, source: named[2]! };
  const [file] = /[^/]+$/.exec(text.replace(/\/+$/, ''))!;
  return { name: file.replace(/\.(jsonl|ndjson|json|csv|tsv|parquet)(\.gz)?$/i, ''), source: text };
}

/** The run's own settings, or the matching preset: the embedded task has its own. Flags override both. */
function protocolOf(flags: EvalFlags, source: string, run: Config | null): Benchmark['protocol'] {
  const { promptTemplate, maxNewTokens: evalMaxNewTokens, model } = flags;
  const given = {
    ...(promptTemplate !== undefined && { promptTemplate }),
    ...(evalMaxNewTokens !== undefined && { evalMaxNewTokens }),
  };
  if (run !== null) return { ...run, ...given };
  return resolveConfig([{ model, ...given }], isEmbeddedTask(source) ? 'tiny' : undefined);
}

/** Loads a data set completely. */
export async function loadBenchmark(
  text: string,
  seed: number,
  judging: JudgingSettings,
  signal?: AbortSignal,
) {
  const { name, source } = splitName(text);
  const rules = dataRules(judging);
  const spec = { name: source, split: 'eval' as const, seed, dropUnparsedGold: false, ...rules };
  return { name, source, dataset: await loadDataset({ ...spec, ...showDownload(source, signal) }) };
}

/** The benchmarks named on the command line, or those of the run. */
export async function loadBenchmarks(
  flags: EvalFlags,
  run: Config | null,
  judging: JudgingSettings,
  signal: AbortSignal,
): Promise<Benchmark[]> {
  const wanted = async () => {
    if (flags.benchmark.length > 0) {
      const loaded = [];
      for (const text of flags.benchmark) loaded.push(await loadBenchmark(text, flags.seed, judging, signal));
      return loaded;
    }
    if (run === null) throw badUsage('--benchmark is required.');
    const name = run.evalDataset ?? run.dataset;
    const evaluated = run.evalProblems + run.evalSampledProblems > 0;
    const { judge, judgeParams } = judging;
    const { evalData, heldOut } = await loadRunData(
      { ...run, judge, judgeParams, ...(!evaluated && { evalProblems: 1 }) },
      {},
      showDownload(name, signal),
    );
    if (!evaluated && heldOut > 0) {
      throw badUsage(`--benchmark is required: the run had no evaluation, so it trained on all of ${name}.`);
    }
    return [{ ...splitName(name), dataset: evalData! }];
  };
  const benchmarks = (await wanted()).map(({ name, source, dataset }): Benchmark => {
    const problems = Math.min(flags.problems ?? dataset.size, dataset.size);
    return {
      name,
      dataset,
      problems,
      problemsSha256: problemsDigest(dataset, problems),
      protocol: protocolOf(flags, source, run),
    };
  });
  const again = benchmarks.find(({ name }, i) => benchmarks.findIndex((other) => other.name === name) !== i);
  if (again === undefined) return benchmarks;
  throw badUsage(`Two benchmarks are called ${again.name}; rename one with --benchmark NAME=FILE.`);
}

function problemsDigest(dataset: Dataset, problems: number): string {
  const rows = Array.from({ length: problems }, (_, i) => dataset.get(i));
  // Without columns kept for a judge, the digest is that of earlier versions.
  const known = rows.map(({ id, question, before, gold, row }) => [
    id,
    question,
    gold,
    ...(before ? [before] : []),
    ...(row ? [row] : []),
  ]);
  return sha256(JSON.stringify(known));
}
