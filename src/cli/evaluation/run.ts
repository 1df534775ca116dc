/** Evaluates every subject on every benchmark; an interrupted call resumes from its files. */
import { join } from 'node:path';
import {
  answerTogether,
  type EvalReport,
  type EvalRow,
  report,
  storedCompletion,
  storedRow,
} from '../../eval';
import type { Config } from '../../config';
import type { Policy } from '../../engine/types';
import { abortable } from '../../base/abortable';
import { engineFacts, openRankEngine } from '../../life/rank-engine';
import { modelFingerprints } from '../../models';
import { agreeOn, type Facts } from '../../ranks/agree';
import { type EvaluationFile, EvaluationFolder, loadTrained, newRunPath, writeJsonAtomic } from '../../run';
import type { Grade } from '../../judges';
import { loadTokenizer, type Tokenizer } from '../../tokenizer';
import { admitModules, judgeIdentity, judgeModule, type JudgingSettings, openJudge } from '../../train';
import type { CommandRanks } from '../among-ranks';
import { required } from '../command';
import { judgingSettings, rememberJudge } from '../judge';
import { checkTokenizer, type ModelFlags, type ModelSession, withModel } from '../session';
import { type Benchmark, loadBenchmarks } from './benchmarks';
import { type EvalFlags, temperatureOf } from './flags';
import { EvalProgress } from './progress';
import { runConfig, type Subject, subjectsOf, weightsOf } from './subjects';
import { printNote } from '../output';

/** One subject on one benchmark, as `--json` prints it. */
export interface Evaluated extends EvalReport {
  model: string;
  adapter: string | null;
  benchmark: string;
  temperature: number;
  samples?: number;
  seed?: number;
  /** What decided: a name, or the path of a file. */
  judge: string;
  label: string;
  run?: string;
  step?: number;
  /** File with the completions. */
  completions: string;
}

interface Unit {
  subject: Subject;
  benchmark: Benchmark;
}

/** Of its files. */
const nameOf = ({ subject, benchmark }: Unit): string => `${subject.label}.${benchmark.name}`;

const noRoom = ({ model }: ModelSession, id: string, tokens: number): string =>
  `acoer: problem ${id} counts as unanswered: its prompt of ${tokens} tokens leaves no room for an answer in the model's ${model.info.maxPositions} positions.`;

class EvaluationRun {
  private readonly said = new Set<string>();

  constructor(
    private readonly flags: EvalFlags,
    private readonly modelName: string,
    private readonly session: ModelSession,
    private readonly tokenizer: Tokenizer,
    /** null: this process is not rank 0. */
    private readonly folder: EvaluationFolder | null,
    private readonly ranks: CommandRanks,
    private readonly judge: { name: string; grade: Grade; identity: object },
    private readonly signal: AbortSignal,
  ) {}

  /** Everything that an answer depends on. */
  private settings({ subject, benchmark }: Unit): object {
    const { model, directory } = this.session;
    const { samples, seed, kvCacheDtype } = this.flags;
    const temperature = temperatureOf(this.flags);
    const { promptTemplate, enableThinking, evalMaxNewTokens: maxNewTokens } = benchmark.protocol;
    return {
      model: this.modelName,
      ...(kvCacheDtype !== 'auto' && { kvCacheDtype }),
      weights: weightsOf(directory),
      dtype: model.info.dtype,
      ...(model.info.quantization !== null && { quantization: model.info.quantization }),
      device: model.info.device.split(':')[0],
      adapter: subject.adapter,
      adapterSha256: subject.adapterSha256,
      benchmark: benchmark.name,
      problems: benchmark.problems,
      problemsSha256: benchmark.problemsSha256,
      promptTemplate,
      enableThinking,
      maxNewTokens,
      temperature,
      samples,
      ...(temperature > 0 && { seed }),
      ...this.judge.identity,
    };
  }

  /** What must be the same on every rank: what the answers of `units` depend on. */
  async agree(units: readonly Unit[]): Promise<void> {
    const { session, ranks, signal } = this;
    const agreed = agreeOn(ranks.ranks, 'files and data', async (): Promise<Facts> => {
      const { engine, model, directory } = session;
      const settings = units.flatMap((unit) =>
        Object.entries(this.settings(unit)).map(([key, value]) => [
          `${key} of ${nameOf(unit)}`,
          JSON.stringify(value) ?? '',
        ]),
      );
      const prints = await modelFingerprints(directory, signal);
      return { ...(Object.fromEntries(settings) as Facts), ...engineFacts(engine, model, { model: prints }) };
    });
    await abortable(agreed, signal);
  }

  /** @returns null on another rank than 0 */
  async evaluate(unit: Unit, policy: Policy | null): Promise<Evaluated | null> {
    const { subject, benchmark } = unit;
    if (this.folder === null) {
      await this.answers(unit, policy, null, []);
      return null;
    }
    using file = this.folder.open(nameOf(unit), this.settings(unit));
    const finished: EvalRow[] = [];
    for await (const { values, where } of file.rows()) finished.push(storedRow(values, where));
    const rows = await this.answers(unit, policy, file, finished);
    const figures = report(rows);
    file.finish(figures);
    const { samples, seed, kvCacheDtype } = this.flags;
    const temperature = temperatureOf(this.flags);
    return {
      model: this.modelName,
      adapter: subject.adapter,
      benchmark: benchmark.name,
      temperature,
      ...(temperature > 0 && { samples, seed }),
      ...(kvCacheDtype !== 'auto' && { kvCacheDtype }),
      ...figures,
      judge: this.judge.name,
      label: subject.label,
      ...(subject.run !== null && { run: subject.run, step: subject.step! }),
      completions: file.completions,
    };
  }

  /** Once: every subject is asked the same prompts. */
  private note(message: string): void {
    if (!this.said.has(message)) printNote(message);
    this.said.add(message);
  }

  private answers(
    { subject, benchmark }: Unit,
    policy: Policy | null,
    file: EvaluationFile | null,
    finished: EvalRow[],
  ): Promise<EvalRow[]> {
    const { samples, seed, slots: maxSlots, kvCacheDtype, numSpeculativeTokens } = this.flags;
    const temperature = temperatureOf(this.flags);
    const { dataset, problems, protocol } = benchmark;
    const total = problems * samples;
    const shown = file && {
      file,
      progress: new EvalProgress(`${subject.label} on ${benchmark.name}`, total, finished),
    };
    return answerTogether(this.ranks.ranks, {
      model: this.session.model,
      policy,
      tokenizer: this.tokenizer,
      dataset,
      grade: this.judge.grade,
      n: problems,
      samples,
      sampling: temperature === 0 ? 'greedy' : { temperature, seed },
      maxNewTokens: protocol.evalMaxNewTokens,
      promptTemplate: protocol.promptTemplate,
      enableThinking: protocol.enableThinking,
      maxSlots,
      kvCacheDtype,
      numSpeculativeTokens,
      signal: this.signal,
      finished,
      onNoRoom: ({ problem, ids }) => shown && printNote(noRoom(this.session, problem.id, ids.length)),
      onWarning: (message) => shown && this.note(`acoer: ${benchmark.name}: ${message}`),
      onCompletion: (completion) => {
        shown?.file.append(storedCompletion(benchmark.name, completion));
        shown?.progress.add(completion);
      },
    });
  }
}

/** The folder named by --out, or `evals/<date>-<benchmarks>`. */
const outOf = (flags: EvalFlags, benchmarks: readonly Benchmark[]): string =>
  flags.out ?? newRunPath('evals', benchmarks.map(({ name }) => name).join('+'));

/** A judge in a file may be somebody else's code if only the run names it. */
async function admitJudge({ judge, run, trust = false }: EvalFlags, judging: JudgingSettings): Promise<void> {
  if (judge !== undefined) return rememberJudge(judging);
  await admitModules(run.join(', '), judgeModule(judging), { named: [], trust }, printNote);
}

export interface Evaluation {
  /** By subject, then by benchmark. */
  evaluated: Evaluated[];
  benchmarks: Benchmark[];
}

/**
 * Every subject on every benchmark; the result is also written to `summary.json`.
 * @returns null on another rank than 0
 */
export async function evaluateAll(
  flags: EvalFlags,
  ranks: CommandRanks,
  signal: AbortSignal,
): Promise<Evaluation | null> {
  const config = runConfig(flags);
  const subjects = await subjectsOf(flags);
  const model = required(flags.model ?? config?.model, '--model');
  const judging = judgingSettings(flags, config);
  await admitJudge(flags, judging);
  const benchmarks = await loadBenchmarks(flags, config, judging, signal);
  const out = outOf(flags, benchmarks);
  // Before the model is loaded, which takes a while.
  using folder = ranks.leads ? new EvaluationFolder(out) : null;
  await using judge = await openJudge(judging, undefined, signal);
  const identity = await judgeIdentity(judging);
  const judged = { name: judging.judge, grade: judge.evaluation, identity };
  const trained = subjects.flatMap(({ adapter }) => adapter ?? []);
  const asked = { ...engineAsked(flags, config, ranks), model, trained };
  return await withModel(asked, signal, async (session) => {
    const tokenizer = await loadTokenizer(session.directory);
    checkTokenizer(session, tokenizer);
    if (folder !== null) printNote(`writing completions to ${out}`);
    const run = new EvaluationRun(flags, model, session, tokenizer, folder, ranks, judged, signal);
    const units = subjects.flatMap((subject) => benchmarks.map((benchmark) => ({ subject, benchmark })));
    if (ranks.process !== null) await run.agree(units);
    const evaluated: Evaluated[] = [];
    try {
      for (const subject of subjects) {
        const policy = subject.adapter === null ? null : await loadTrained(session.model, subject.adapter);
        for (const benchmark of benchmarks) {
          const one = await run.evaluate({ subject, benchmark }, policy);
          if (one !== null) evaluated.push(one);
        }
        await policy?.dispose();
      }
    } catch (error) {
      if (signal.aborted && folder !== null) printNote(`to resume, repeat the command with --out ${out}`);
      throw error;
    }
    if (folder === null) return null;
    writeJsonAtomic(join(out, 'summary.json'), evaluated);
    return { evaluated, benchmarks };
  });
}

/** Which engine is opened, and the type it computes in. */
function engineAsked(
  { device, threads, dtype, quantization }: EvalFlags,
  config: Config | null,
  { process }: CommandRanks,
): Pick<ModelFlags, 'device' | 'threads' | 'dtype' | 'quantization' | 'openEngine'> {
  const settings = { device, threads: threads ?? null, memoryLimitBytes: null };
  return {
    device,
    threads,
    // All weights are trained in a type that need not be the model's own.
    dtype: dtype ?? (config?.full === true ? config.dtype! : undefined),
    // An adapter was trained over the weights as they were quantised.
    quantization: quantization === undefined ? config?.quantization : quantization,
    openEngine: process === null ? undefined : () => openRankEngine(settings, process.joined.launch),
  };
}
