/** A run whose page is open: all its lines, and what else the page shows. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { errorMessage } from '../base/errors';
import { marksOf } from '../report/marks';
import { readProgress, readRollbacks, runTables, type Rollback, type RunDirectory } from '../run';
import { mayRead, MOST_JSON_BYTES } from './inside';
import { MOST_ROLLBACKS, RunSeries } from './series';
import type { LogEntry, RunDetails, WireProgress, WireTable } from './wire';

const MOST_LOG = 300;
const MOST_SEQUENCES = 512;
const MOST_NAME = 200;
const MOST_TABLES = 20_000;
/** Phases of a process that has let go of the run. */
const OVER: readonly string[] = ['finished', 'interrupted', 'failed'];

const stepsIn = (folder: string, pattern: RegExp): number[] =>
  (existsSync(folder) ? readdirSync(folder) : []).flatMap((name) => {
    const match = pattern.exec(name);
    return match === null ? [] : [Number(match[1])];
  });

export class OpenedRun {
  readonly series: RunSeries;
  /** Raised whenever the details change. */
  version = 0;
  progress: WireProgress['progress'] = null;
  details: RunDetails;
  private polling: Promise<void> | null = null;
  private text = '';
  private rollbacksText = '';
  private rollbacks: Rollback[] = [];

  constructor(
    readonly id: string,
    readonly run: RunDirectory,
  ) {
    this.series = new RunSeries(run);
    this.details = { path: run.path, marks: [], log: [], tables: [], problems: [] };
  }

  /** Reads what has changed, and never fails: what is wrong with a file becomes a sentence among the details. */
  poll(): Promise<void> {
    this.polling ??= this.read().finally(() => (this.polling = null));
    return this.polling;
  }

  private async read(): Promise<void> {
    const problems: string[] = [];
    const attempt = async (work: () => unknown): Promise<void> => {
      try {
        await work();
      } catch (error) {
        problems.push(errorMessage(error));
      }
    };
    await attempt(() => this.readRollbacks());
    await attempt(() => this.series.poll());
    const tables: WireTable[] = [];
    await attempt(async () => tables.push(...(await this.tables())));
    await attempt(() => this.readProgress());
    if (this.series.problem !== null) problems.push(this.series.problem);
    const marks = marksOf(this.series.notable, this.rollbacks);
    const log = this.log(marks);
    this.details = { path: this.run.path, marks, log, tables, problems };
    const text = JSON.stringify(this.details);
    if (text === this.text) return;
    this.text = text;
    this.version++;
  }

  private async readRollbacks(): Promise<void> {
    const { run } = this;
    if (!(await mayRead(run.path, join(run.path, 'rollbacks.json'), MOST_JSON_BYTES))) return;
    this.rollbacks = readRollbacks(run).slice(0, MOST_ROLLBACKS);
    const text = JSON.stringify(this.rollbacks);
    if (text === this.rollbacksText) return;
    const files = this.rollbacks.map(({ number }) => join(run.path, `rolled-back-${number}.jsonl`));
    const allowed = await Promise.all(files.map((path) => mayRead(run.path, path)));
    await this.series.readDiscarded(this.rollbacks.filter((_, i) => allowed[i]));
    this.rollbacksText = text;
  }

  private async readProgress(): Promise<void> {
    this.progress = null;
    if (!(await mayRead(this.run.path, this.run.progress(), MOST_JSON_BYTES))) return;
    const found = this.run.state() === 'running' ? readProgress(this.run.path) : null;
    if (found === null || OVER.includes(found.phase)) return;
    const { phase, step, kind, done, total, tokens, tokensPerSecond, sequences } = found;
    this.progress = {
      phase,
      step,
      kind,
      done,
      total,
      tokens,
      tokensPerSecond,
      sequences: sequences.slice(0, MOST_SEQUENCES).map(({ problemId, prompt, sample, tokens: made }) => {
        return { problemId: problemId.slice(0, MOST_NAME), prompt, sample, tokens: made };
      }),
    };
  }

  private async tables(): Promise<WireTable[]> {
    const { run } = this;
    const folders = ['completions', 'evaluations'].map((name) => join(run.path, name));
    const [training, evaluations] = await Promise.all(folders.map((path) => mayRead(run.path, path)));
    return runTables(run.path)
      .filter(({ kind }) => (kind === 'training' ? training : evaluations))
      .slice(-MOST_TABLES)
      .map(({ kind, step }): WireTable => ({ kind, step }));
  }

  private log(marks: RunDetails['marks']): LogEntry[] {
    const { run } = this;
    const checkpoints = run.checkpointSteps().map((step): LogEntry => {
      return { step, kind: 'checkpoint', text: `Checkpoint of step ${step}.` };
    });
    const dumps = stepsIn(run.dumps(), /^step-(\d+)$/).map((step): LogEntry => {
      return { step, kind: 'dump', text: `Step ${step} was dumped: acoer replay repeats it.` };
    });
    const hangs = readdirSync(run.path).flatMap((name): LogEntry[] => {
      const match = /^watchdog-(\d+)-(\w+)\.json$/.exec(name);
      if (match === null) return [];
      const [, step, phase] = match;
      return [
        { step: Number(step), kind: 'hang', text: `Step ${step} hung in ${phase}; ${name} says where.` },
      ];
    });
    const ended = existsSync(run.summary());
    const all = [...marks, ...this.series.evaluations, ...checkpoints, ...dumps, ...hangs];
    const ordered = all.sort((a, b) => (b.step ?? 0) - (a.step ?? 0)).slice(0, MOST_LOG);
    return ended ? [{ step: null, kind: 'evaluation', text: 'The run has finished.' }, ...ordered] : ordered;
  }
}
