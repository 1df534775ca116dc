/** A run as the list shows it, from the beginning, the end and a few places of its metrics. */
import { existsSync, statSync } from 'node:fs';
import { stat, type FileHandle } from 'node:fs/promises';
import { basename } from 'node:path';
import { errorCode, errorMessage } from '../base/errors';
import { isRecord } from '../base/json';
import { Pace } from '../base/pace';
import { NOT_REGULAR, readRegularFileSync } from '../base/regular-file';
import { lineMetrics, readRollbacks, type RunDirectory } from '../run';
import { mean } from '../base/statistics';
import { HEALTH, type StepMetrics } from '../base/types';
import { mayRead, MOST_JSON_BYTES } from '../http';
import { openRegular } from './lines';
import type { Change, EntryState, RunEntry } from './wire';

/** Lines at the beginning and the end that are averaged: the values of single steps vary much. */
const AVERAGED = 20;
const END_BYTES = 64 * 1024;
/** Places that the course is made of, and what is read at each. */
const PLACES = 24;
const PLACE_BYTES = 8 * 1024;
const PLACE_LINES = 2;
/** The course is read again when the file has grown by this factor. */
const GROWN = 1.1;
/** A run is suspiciously quiet after this time, and after this many of its steps. */
const QUIET_MS = 120_000;
const QUIET_STEPS = 10;
const MOST_NAME = 200;
/** Codes of errors for a link, a folder, a pipe or a device. */
const NO_PLAIN_FILE = new Set<string | undefined>(['ELOOP', 'EISDIR', NOT_REGULAR]);

const NOT_READ =
  'A file of this run is a link that leads out of its folder, or has more than 16 MB; it is not read.';

type Known = Omit<RunEntry, 'state' | 'quietSince' | 'leftMs' | 'problem' | 'rollbacks'>;

const meanOf = (lines: readonly StepMetrics[], metric: string): number | null => {
  const values = lines.map((line) => line[metric]).filter((value) => value !== undefined);
  return values.length === 0 ? null : mean(values);
};

function changeOf(first: StepMetrics[], last: StepMetrics[], metric: string): Change | null {
  const [before, now] = [meanOf(first, metric), meanOf(last, metric)];
  return before === null || now === null ? null : { before, now };
}

const shortText = (value: unknown): string => (typeof value === 'string' ? value.slice(0, MOST_NAME) : '');

/** Name of the reward in a run's settings: text, or a list with weights. */
function rewardName(reward: unknown): string {
  if (!Array.isArray(reward)) return shortText(reward);
  const names = reward.map((part: unknown) => shortText(isRecord(part) ? part.name : part));
  return names.filter((name) => name !== '').join(' + ');
}

const numberOr = <T>(value: unknown, other: T): number | T => (typeof value === 'number' ? value : other);

/** The first lines that are whole within a piece of the file, or with a negative `most` the last ones. */
async function linesWithin(
  handle: FileHandle,
  start: number,
  length: number,
  most: number,
): Promise<StepMetrics[]> {
  const piece = Buffer.alloc(length);
  const { bytesRead } = await handle.read(piece, 0, length, start);
  const text = piece.toString('utf8', 0, bytesRead);
  const from = start === 0 ? 0 : text.indexOf('\n') + 1;
  const lines = from === 0 && start > 0 ? [] : text.slice(from, text.lastIndexOf('\n') + 1).split('\n');
  const whole = lines.filter((line) => line !== '');
  const chosen = most > 0 ? whole.slice(0, most) : whole.slice(most);
  return chosen.map(lineMetrics).filter((line) => line !== null);
}

export class RunOverview {
  private first: StepMetrics[] = [];
  private last: StepMetrics[] = [];
  private course: RunEntry['course'] = [];
  private courseBytes = 0;
  private inode = 0;
  private sizeBytes = -1;
  private modifiedMs = 0;

  constructor(
    readonly id: string,
    readonly run: RunDirectory,
  ) {}

  /** @throws nothing: what is wrong with the run's files is in the entry */
  async refresh(pace: Pace): Promise<RunEntry> {
    let problem: string | null = null;
    try {
      await this.readMetrics();
    } catch (error) {
      const code = errorCode(error);
      problem = NO_PLAIN_FILE.has(code)
        ? 'metrics.jsonl is a link or no file; it is not followed.'
        : `metrics.jsonl cannot be read: ${errorMessage(error)}`;
    }
    await pace.turn();
    return this.entry(problem);
  }

  private async readMetrics(): Promise<void> {
    const handle = await openRegular(this.run.metrics());
    if (handle === null) {
      Object.assign(this, { first: [], last: [], course: [], inode: 0, sizeBytes: -1, modifiedMs: 0 });
      return;
    }
    try {
      const { ino, size, mtimeMs } = await handle.stat();
      if (ino === this.inode && size === this.sizeBytes && mtimeMs === this.modifiedMs) return;
      const again = ino !== this.inode || size < this.sizeBytes;
      Object.assign(this, { inode: ino, sizeBytes: size, modifiedMs: mtimeMs });
      if (again || this.first.length < AVERAGED) {
        this.first = await linesWithin(handle, 0, END_BYTES, AVERAGED);
      }
      this.last = await linesWithin(handle, Math.max(0, size - END_BYTES), END_BYTES, -AVERAGED);
      if (again || size > GROWN * this.courseBytes) await this.readCourse(handle, size);
    } finally {
      await handle.close();
    }
  }

  private async readCourse(handle: FileHandle, size: number): Promise<void> {
    const points = new Map<number, number>();
    const pace = new Pace();
    for (let i = 0; i < PLACES; i++) {
      const start = Math.floor((i * Math.max(0, size - PLACE_BYTES)) / (PLACES - 1));
      const lines = await linesWithin(handle, start, PLACE_BYTES, PLACE_LINES);
      const thinking = meanOf(lines, 'thinking/mean');
      if (thinking !== null) points.set(lines[0]!.step!, Number(thinking.toPrecision(4)));
      await pace.turn();
    }
    this.course = [...points].sort((a, b) => a[0] - b[0]);
    this.courseBytes = size;
  }

  private async entry(problem: string | null): Promise<RunEntry> {
    const { run } = this;
    const problems = problem === null ? [] : [problem];
    const attempt = <T>(read: () => T, otherwise: T): T => {
      try {
        return read();
      } catch (error) {
        problems.push(errorMessage(error));
        return otherwise;
      }
    };
    const files = [run.config(), run.summary(), run.progress()];
    const others = ['rollbacks.json', 'lock.json'].map((name) => `${run.path}/${name}`);
    const allowed = await Promise.all(
      [...files, ...others].map((path) => mayRead(run.path, path, MOST_JSON_BYTES)),
    );
    const readable = allowed.every(Boolean);
    if (!readable) problems.push(NOT_READ);
    const settings = readable ? attempt(() => run.settings() as Record<string, unknown>, {}) : {};
    const state = readable ? attempt<EntryState>(() => run.state(), 'unreadable') : 'unreadable';
    const rollbacks = readable ? attempt(() => readRollbacks(run).length, 0) : 0;
    const startedAt = attempt(() => statSync(run.config()).mtimeMs, 0);
    const known = this.known(settings, startedAt);
    const stepMs = 1000 * (meanOf(this.last, 'step_time') ?? 0);
    const quietSince = state === 'running' ? await this.quietSince(known, stepMs) : null;
    const willContinue =
      state === 'running' && quietSince === null && stepMs > 0 && known.maxSteps > known.step;
    return {
      ...known,
      state,
      rollbacks,
      quietSince,
      leftMs: willContinue ? Math.round(stepMs * (known.maxSteps - known.step)) : null,
      problem: problems[0] ?? null,
    };
  }

  private known(settings: Record<string, unknown>, startedAt: number): Known {
    const last = this.last.at(-1);
    return {
      id: this.id,
      name: basename(this.run.path).slice(0, MOST_NAME),
      step: last?.step ?? 0,
      maxSteps: numberOr(settings.maxSteps, 0),
      startedAt,
      updatedAt: this.modifiedMs === 0 ? null : this.modifiedMs,
      model: shortText(settings.model),
      reward: rewardName(settings.reward),
      seed: numberOr(settings.seed, null),
      maxCompletionLength: numberOr(settings.maxCompletionLength, null),
      accuracy: changeOf(this.first, this.last, 'accuracy/mean'),
      thinking: changeOf(this.first, this.last, 'thinking/mean'),
      course: this.courseToNow(),
      health: last?.['monitor/state'] === undefined ? null : (HEALTH[last['monitor/state']] ?? null),
    };
  }

  private courseToNow(): RunEntry['course'] {
    const [step, now] = [this.last.at(-1)?.step, meanOf(this.last, 'thinking/mean')];
    if (step === undefined || now === null) return this.course;
    return [...this.course.filter((point) => point[0] < step), [step, Number(now.toPrecision(4))]];
  }

  /** When the run last wrote, if that is longer ago than its steps explain. */
  private async quietSince({ updatedAt, startedAt }: Known, stepMs: number): Promise<number | null> {
    const progressAt = await stat(this.run.progress()).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    );
    const since = Math.max(updatedAt ?? 0, startedAt, progressAt);
    return Date.now() - since > Math.max(QUIET_MS, QUIET_STEPS * stepMs) ? since : null;
  }
}

/** Whether a folder is a run: other programs write a config.json as well. A damaged one counts with metrics. */
export function isRun(run: RunDirectory): boolean {
  if (!existsSync(run.config()) || !statSync(run.config()).isFile()) return false;
  try {
    const settings: unknown = JSON.parse(readRegularFileSync(run.config(), MOST_JSON_BYTES).toString('utf8'));
    return isRecord(settings) && typeof settings.maxSteps === 'number';
  } catch {
    return existsSync(run.metrics());
  }
}
