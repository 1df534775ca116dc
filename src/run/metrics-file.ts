/** metrics.jsonl: one JSON object per finished step, appended when the step ends. */
import { closeSync, existsSync, fstatSync, readSync } from 'node:fs';
import { badInput, unreadable } from '../base/errors';
import { finiteNumbers, isRecord, parsedJson } from '../base/json';
import { Pace } from '../base/pace';
import { MAX_TEXT_BYTES, openRegularFileSync, readRegularFile } from '../base/regular-file';
import type { StepMetrics } from '../base/types';
import { AppendedFile, writeFileAtomic } from './atomic';
import { readRunFile } from './read-file';

/** The numbers of a line; null if no run wrote it. */
export function lineMetrics(text: string): StepMetrics | null {
  const metrics = parsedJson(text);
  const sound =
    isRecord(metrics) &&
    Number.isSafeInteger(metrics.step) &&
    Object.values(metrics).every((number) => typeof number === 'number');
  return sound ? (metrics as StepMetrics) : null;
}

const damagedLine = (path: string, index: number) =>
  badInput(
    `${path} line ${index + 1} is not a line of metrics: the file is damaged. Resuming repairs a run's; otherwise remove the line.`,
  );

/**
 * The text of each line; the last one is empty, or was cut off. Reading many takes turns with the event loop:
 * ten thousand steps take a fifth of a second.
 */
async function linesOf(path: string): Promise<string[]> {
  if (!existsSync(path)) return [];
  const text = await readRegularFile(path, MAX_TEXT_BYTES).catch((cause: unknown) => {
    throw unreadable(path, cause);
  });
  return text.toString('utf8').split('\n');
}

/** Adds the sound lines of steps 1 to `lastStep` that `lines` lacks. */
async function addLines(
  lines: Map<number, string>,
  texts: readonly string[],
  lastStep: number,
): Promise<void> {
  const pace = new Pace();
  for (const text of texts) {
    const step = lineMetrics(text)?.step ?? 0;
    if (step >= 1 && step <= lastStep && !lines.has(step)) lines.set(step, text);
    await pace.turn();
  }
}

/** `step 3`, `steps 3, 5-9` */
function stepRanges(steps: readonly number[]): string {
  const ranges: [first: number, last: number][] = [];
  for (const step of steps) {
    const range = ranges.at(-1);
    if (range !== undefined && range[1] === step - 1) range[1] = step;
    else ranges.push([step, step]);
  }
  const shown = ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`));
  return `${steps.length > 1 ? 'steps' : 'step'} ${shown.join(', ')}`;
}

/**
 * The lines of steps 1 to `lastStep`. Lines that were lost or damaged (power loss, a bad disk) are taken from
 * `copies`.
 * @param copies files with some of the same lines
 * @param warn gets a sentence that names the steps whose lines were missing
 * @param known lines that the caller has itself
 */
export async function recoverLines(
  path: string,
  lastStep: number,
  copies: readonly string[],
  warn: (message: string) => void,
  known: readonly string[] = [],
): Promise<string> {
  const lines = new Map<number, string>();
  const missing = () => Array.from({ length: lastStep }, (_, i) => i + 1).filter((step) => !lines.has(step));
  await addLines(lines, known, lastStep);
  await addLines(lines, await linesOf(path), lastStep);
  const lost = missing();
  if (lost.length > 0) {
    for (const copy of copies) await addLines(lines, await linesOf(copy), lastStep);
    const gone = missing();
    const restored = lost.filter((step) => lines.has(step));
    if (restored.length > 0)
      warn(`${path} had lost the lines of ${stepRanges(restored)}: restored from checkpoints.`);
    if (gone.length > 0)
      warn(
        `${path} has lost the lines of ${stepRanges(gone)}, and no checkpoint has them: their metrics are gone. The steps themselves are not affected.`,
      );
  }
  const inOrder = [...lines].sort(([a], [b]) => a - b);
  return inOrder.map(([, text]) => `${text}\n`).join('');
}

/** How much of a file's end is read at first to find the lines of its last steps. */
const TAIL_BYTES = 1 << 16;

/** The lines at the end of the file that belong to `firstStep` and later steps. */
export function linesSince(path: string, firstStep: number): string {
  if (!existsSync(path)) return '';
  const handle = openRegularFileSync(path);
  try {
    const { size } = fstatSync(handle);
    for (let count = TAIL_BYTES; ; count *= 2) {
      const text = readEnd(handle, size, Math.min(count, size));
      const lines = text.split('\n').slice(count < size ? 1 : 0, -1);
      const before = lines.findLastIndex((line) => (lineMetrics(line)?.step ?? 0) < firstStep);
      if (before !== -1 || count >= size)
        return lines.slice(before + 1).map((line) => `${line}\n`).join(''); // prettier-ignore
    }
  } finally {
    closeSync(handle);
  }
}

function readEnd(handle: number, size: number, count: number): string {
  const bytes = Buffer.alloc(count);
  return bytes.toString('utf8', 0, readSync(handle, bytes, 0, count, size - count));
}

export class MetricsFile {
  private file: AppendedFile;
  /** The lines since the newest checkpoint began, and those of the one before it, which has copies of them. */
  private recent: string[] = [];
  private before: string[] = [];
  private told = false;

  private constructor(
    private readonly path: string,
    private lastStep: number,
    private readonly warn: (message: string) => void,
    private readonly copies: () => readonly string[],
  ) {
    this.file = new AppendedFile(path);
  }

  /**
   * Opens `path` to continue after step `lastStep`: later lines, whose steps will be repeated, are dropped,
   * and missing ones restored.
   * @param copies as in `recoverLines`, whenever they are asked for
   * @param warn called with the metrics left out because they are not finite, and with what was missing
   */
  static async open(
    path: string,
    lastStep: number,
    warn: (message: string) => void,
    copies: () => readonly string[] = () => [],
  ): Promise<MetricsFile> {
    writeFileAtomic(path, await recoverLines(path, lastStep, copies(), warn));
    return new MetricsFile(path, lastStep, warn, copies);
  }

  /** Writes a whole line or nothing. NaN and infinities, which JSON lacks, are left out with a warning. */
  append(metrics: StepMetrics): void | Promise<void> {
    if (this.file.isIntact()) return this.write(metrics);
    return this.restore().then(() => this.write(metrics));
  }

  private write(metrics: StepMetrics): void {
    const { finite, dropped } = finiteNumbers(metrics);
    if (dropped.length > 0)
      this.warn(
        `step ${metrics.step}: left out of the metrics because they are not finite: ${dropped.join(', ')}`,
      );
    const line = JSON.stringify(finite);
    this.file.append(Buffer.from(`${line}\n`));
    this.recent.push(line);
    this.lastStep = metrics.step ?? this.lastStep;
  }

  /** Writes the lines back: the file was replaced, removed or cut since the last one. */
  private async restore(): Promise<void> {
    const known = [...this.before, ...this.recent];
    const { path, lastStep } = this;
    const whole = this.file.content();
    if (!this.told)
      this.warn(`${path} was replaced, removed or changed by something else: its lines are written again.`);
    this.told = true;
    writeFileAtomic(path, whole ?? (await recoverLines(path, lastStep, this.copies(), this.warn, known)));
    this.file.close();
    this.file = new AppendedFile(path);
  }

  /** Flushes the lines so far to disk: before a checkpoint, so that none of its steps can be missing. */
  async sync(): Promise<void> {
    if (!this.file.isIntact()) await this.restore();
    this.file.sync();
    this.before = this.recent;
    this.recent = [];
  }

  close(): void {
    this.file.close();
  }
}

/**
 * The lines of a run in step order; a last line that was cut off counts as not written.
 * @throws BAD_INPUT naming a line that no run wrote
 */
export function readMetrics(path: string): StepMetrics[] {
  if (!existsSync(path)) return [];
  const lines = readRunFile(path, MAX_TEXT_BYTES).toString('utf8').split('\n').slice(0, -1);
  return lines.flatMap((text, index) => {
    if (text === '') return [];
    const metrics = lineMetrics(text);
    if (metrics === null) throw damagedLine(path, index);
    return [metrics];
  });
}

/** The lines of a run whose file may be damaged, without those that are, read without blocking the event loop. */
export async function readSoundMetrics(path: string): Promise<StepMetrics[]> {
  const pace = new Pace();
  const sound: StepMetrics[] = [];
  for (const text of await linesOf(path)) {
    const metrics = lineMetrics(text);
    if (metrics !== null) sound.push(metrics);
    await pace.turn();
  }
  return sound;
}

/** The numbers of a line, whose line number is the step if it names none. Null: not a JSON object. */
function numbersOf(value: unknown, index: number): StepMetrics | null {
  if (!isRecord(value)) return null;
  const numbers = Object.entries(value).filter((entry) => typeof entry[1] === 'number');
  return { step: index + 1, ...(Object.fromEntries(numbers) as StepMetrics) };
}

/** The log in transformers' trainer_state.json, or null. */
function logHistory(text: string): unknown[] | null {
  const state = text.includes('"log_history"') ? parsedJson(text) : null;
  return isRecord(state) && Array.isArray(state['log_history']) ? state['log_history'] : null;
}

/**
 * The lines of any file with one JSON object per line, or of transformers' trainer_state.json, whoever wrote it;
 * values that are not numbers are left out. A last line cut off by a crash counts as not written.
 * @throws BAD_INPUT for an unreadable file, or naming the first line that is not a JSON object
 */
export function readAnyMetrics(path: string): StepMetrics[] {
  const text = readRunFile(path, MAX_TEXT_BYTES).toString('utf8');
  const history = logHistory(text);
  if (history !== null)
    return history.map((entry, index) => numbersOf(entry, index)).filter((entry) => entry !== null);
  const lines = text.split('\n');
  return lines.flatMap((line, index) => {
    if (line.trim() === '') return [];
    const metrics = numbersOf(parsedJson(line), index);
    if (metrics !== null) return [metrics];
    if (index > 0 && index === lines.length - 1) return [];
    throw damagedLine(path, index);
  });
}
