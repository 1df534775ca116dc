/** A run whose page is open: all its lines, and what else the page shows. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { errorMessage } from '../base/errors';
import { marksOf } from '../report/marks';
import {
  discardedFile,
  readProgress,
  readRollbacks,
  runTables,
  type Rollback,
  type RunDirectory,
} from '../run';
import { mayRead, MOST_JSON_BYTES } from '../http';
import { MOST_ROLLBACKS, RunSeries } from './series';
import { bareDetails, type LogEntry, type RunDetails, type WireProgress, type WireTable } from './wire';

const MOST_LOG = 300;
const MOST_TABLES = 20_000;
/** Phases of a process that has let go of the run. */
const OVER: readonly string[] = ['finished', 'interrupted', 'failed'];

/** The names in a folder that fit a pattern, with its groups. */
const matchesIn = (folder: string, pattern: RegExp): RegExpExecArray[] =>
  (existsSync(folder) ? readdirSync(folder) : [])
    .map((name) => pattern.exec(name))
    .filter((match) => match !== null);

const entry = (step: number | null, kind: LogEntry['kind'], text: string): LogEntry => ({ step, kind, text });

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
    this.details = bareDetails(run.path, []);
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
    const files = this.rollbacks.map(({ number }) => discardedFile(run, number));
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
    this.progress = { phase, step, kind, done, total, tokens, tokensPerSecond, sequences };
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
    const checkpoints = run
      .checkpointSteps()
      .map((step) => entry(step, 'checkpoint', `Checkpoint of step ${step}.`));
    const dumps = matchesIn(run.dumps(), /^step-(\d+)$/)
      .map(([, digits]) => Number(digits))
      .map((step) => entry(step, 'dump', `Step ${step} was dumped: acoer replay repeats it.`));
    const hangs = matchesIn(run.path, /^watchdog-(\d+)-(\w+)\.json$/).map(([name, step, phase]) =>
      entry(Number(step), 'hang', `Step ${step} hung in ${phase}; ${name} says where.`),
    );
    const all = [...marks, ...this.series.evaluations, ...checkpoints, ...dumps, ...hangs];
    const ordered = all.sort((a, b) => (b.step ?? 0) - (a.step ?? 0)).slice(0, MOST_LOG);
    return existsSync(run.summary())
      ? [entry(null, 'evaluation', 'The run has finished.'), ...ordered]
      : ordered;
  }
}
