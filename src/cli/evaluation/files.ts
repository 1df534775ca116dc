/** Existing completions: graded without a model, or compared. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import {
  type AnswerPreset,
  compare,
  type Comparison,
  type EvalReport,
  type EvalRow,
  gradeFile,
  report,
  storedRow,
} from '../../eval';
import { badInput, badUsage, errorMessage } from '../../base/errors';
import { VerifierPool } from '../../grading';
import { resolveTokenizer } from '../../models';
import { evaluationRows, recordOf } from '../../run';
import { percent } from '../../base/text';
import { loadTokenizer } from '../../tokenizer';
import { openJudge } from '../../train';
import { dataRules, judgingSettings, rememberJudge } from '../judge';
import { loadBenchmark } from './benchmarks';
import type { EvalFlags } from './flags';
import { printNote } from '../output';

/** Verdicts on every completion of a file, computed on all cores. */
async function graded(path: string, flags: EvalFlags, signal: AbortSignal): Promise<EvalRow[]> {
  const [text] = flags.benchmark;
  const judging = judgingSettings(flags, null);
  await rememberJudge(judging);
  const dataset =
    text === undefined ? null : (await loadBenchmark(text, flags.seed, judging, signal)).dataset;
  const tokenizer =
    flags.tokenizer === undefined
      ? null
      : await loadTokenizer(await resolveTokenizer(flags.tokenizer, { signal }));
  const preset: AnswerPreset = flags.answers;
  const pool = new VerifierPool();
  let shownAt = Date.now();
  const onProgress = (done: number, correct: number): void => {
    if (Date.now() - shownAt < 2_000) return;
    shownAt = Date.now();
    printNote(`${done} completions graded, ${percent(correct / done)} correct`);
  };
  const judge = judging.judge === 'math' ? null : await openJudge(judging, undefined, signal);
  try {
    const own = judge && { grade: judge.evaluation, needsGold: dataRules(judging).references.needsGold };
    const options = { dataset, tokenizer, preset, signal, onProgress, ...(own && { judge: own }) };
    return await gradeFile(path, { grader: pool, ...options });
  } finally {
    pool.close();
    await judge?.close();
  }
}

export interface GradedFile extends EvalReport {
  completions: string;
  benchmark: string | null;
  /** What decided: a name, or the path of a file. */
  judge: string;
}

/** `--completions FILE`. */
export async function gradeCompletions(flags: EvalFlags, signal: AbortSignal): Promise<GradedFile> {
  const completions = flags.completions!;
  if (flags.benchmark.length > 1) {
    throw badUsage('A file of completions belongs to one benchmark; give --benchmark only once.');
  }
  const figures = report(await graded(completions, flags, signal));
  const judge = flags.judge ?? 'math';
  return { completions, benchmark: flags.benchmark[0] ?? null, judge, ...figures };
}

/** The files of completions that an evaluation wrote into `folder`, by benchmark. */
function filesIn(folder: string): Map<string, string> {
  const files = new Map<string, string>();
  for (const name of readdirSync(folder).filter((entry) => entry.endsWith('.jsonl'))) {
    const path = join(folder, name);
    const benchmark = recordOf(path)?.settings.benchmark;
    if (typeof benchmark !== 'string') continue;
    const other = files.get(benchmark);
    if (other !== undefined) {
      throw badInput(
        `${folder} contains several evaluations on ${benchmark}; name one of the files, such as ${other} or ${path}.`,
      );
    }
    files.set(benchmark, path);
  }
  if (files.size > 0) return files;
  throw badInput(`${folder} contains no evaluation; name a folder written by acoer eval, or a file.`);
}

/** The files of a folder by benchmark; null for a file. */
function folderOf(path: string): Map<string, string> | null {
  try {
    if (!statSync(path).isDirectory()) return null;
  } catch (cause) {
    throw badInput(`Cannot read ${path}: ${errorMessage(cause)}`, cause);
  }
  return filesIn(path);
}

/** The file that belongs with `file`. */
function partnerIn(files: Map<string, string>, file: string): string {
  const benchmark = recordOf(file)?.settings.benchmark;
  const found = files.size === 1 ? [...files.values()][0] : files.get(String(benchmark));
  if (found !== undefined) return found;
  throw badInput(`${file} matches none of ${[...files.values()].join(', ')}; name two files.`);
}

/** Pairs the files of both sides by benchmark; a single file takes the benchmark of the other side. */
function pairFiles(a: string, b: string): { benchmark: string | null; files: [string, string] }[] {
  const [first, second] = [folderOf(a), folderOf(b)];
  if (first === null || second === null) {
    const files: [string, string] = [
      first === null ? a : partnerIn(first, b),
      second === null ? b : partnerIn(second, a),
    ];
    return [{ benchmark: null, files }];
  }
  const shared = [...first.keys()].filter((benchmark) => second.has(benchmark));
  if (shared.length > 0) {
    return shared.map((benchmark) => ({ benchmark, files: [first.get(benchmark)!, second.get(benchmark)!] }));
  }
  throw badInput(`${a} and ${b} have no benchmark in common.`);
}

/** Our own finished evaluations keep their verdicts; any other file is graded. */
async function rowsOf(path: string, flags: EvalFlags, signal: AbortSignal): Promise<EvalRow[]> {
  const record = recordOf(path);
  if (record === null) return graded(path, flags, signal);
  if (record.report === null) {
    throw badInput(
      `${path} belongs to an unfinished evaluation; finish it first by repeating its command with the same --out.`,
    );
  }
  const rows: EvalRow[] = [];
  for await (const { values, where } of evaluationRows(path, record)) rows.push(storedRow(values, where));
  return rows;
}

export interface ComparedFiles extends Comparison {
  benchmark: string | null;
  /** The two files compared. */
  files: [a: string, b: string];
}

/** `--compare A B`. */
export async function compareFiles(flags: EvalFlags, signal: AbortSignal): Promise<ComparedFiles[]> {
  const compared: ComparedFiles[] = [];
  const [first, second] = flags.compare!;
  for (const { benchmark, files } of pairFiles(first!, second!)) {
    const a = await rowsOf(files[0], flags, signal);
    const b = await rowsOf(files[1], flags, signal);
    compared.push({ benchmark, files, ...compare(a, b) });
  }
  return compared;
}
