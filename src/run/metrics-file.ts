/** metrics.jsonl: one JSON object per finished step, appended when the step ends. */
import { closeSync, existsSync, fsyncSync, openSync } from 'node:fs';
import { AcoerError, whyUnreadable } from '../errors';
import { finiteNumbers, isRecord } from '../json';
import { Pace } from '../pace';
import { MAX_TEXT_BYTES, readRegularFile, readRegularFileSync } from '../regular-file';
import type { StepMetrics } from '../types';
import { appendWhole, writeFileAtomic } from './atomic';

/** A line of the file and its contents. */
export interface Line {
  text: string;
  metrics: StepMetrics;
}

/** The numbers of a line; null if no run wrote it. */
export function lineMetrics(text: string): StepMetrics | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const metrics = value as StepMetrics | null;
  const sound =
    typeof metrics === 'object' &&
    metrics !== null &&
    Number.isSafeInteger(metrics.step) &&
    Object.values(metrics).every((number) => typeof number === 'number');
  return sound ? metrics : null;
}

function parsedLine(path: string, text: string, index: number): Line {
  const metrics = lineMetrics(text);
  if (metrics !== null) return { text, metrics };
  throw damagedLine(path, index);
}

const damagedLine = (path: string, index: number) =>
  new AcoerError(
    'BAD_INPUT',
    `${path} line ${index + 1} is not a line of metrics: the file is damaged. Remove the line to continue.`,
  );

/**
 * The lines of the file's text; one cut off by a crash counts as not written.
 * @throws BAD_INPUT naming a line that no run wrote
 */
function* parsedLines(path: string, bytes: Buffer): Generator<Line> {
  const text = bytes.toString('utf8');
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  for (const [index, line] of lines.entries()) if (line !== '') yield parsedLine(path, line, index);
}

/** The lines of steps up to `lastStep`. @throws BAD_INPUT */
function linesUpTo(path: string, lastStep: number): Line[] {
  if (!existsSync(path)) return [];
  const lines = [...parsedLines(path, readRegularFileSync(path, MAX_TEXT_BYTES))];
  return lines.filter(({ metrics }) => metrics.step! <= lastStep);
}

/** The same without blocking the event loop: ten thousand steps take a fifth of a second. */
export async function metricsLines(path: string, lastStep = Infinity): Promise<Line[]> {
  if (!existsSync(path)) return [];
  const pace = new Pace();
  const lines: Line[] = [];
  for (const line of parsedLines(path, await readRegularFile(path, MAX_TEXT_BYTES))) {
    if (line.metrics.step! <= lastStep) lines.push(line);
    await pace.turn();
  }
  return lines;
}

export class MetricsFile {
  private readonly handle: number;

  /**
   * Opens `path` to continue after step `lastStep`; later lines, whose steps will be repeated, are dropped.
   * @param warn called with the metrics left out because they are not finite
   * @param kept the file's lines up to `lastStep`, if the caller has read them
   */
  constructor(
    path: string,
    lastStep: number,
    private readonly warn: (message: string) => void,
    kept: readonly Line[] = linesUpTo(path, lastStep),
  ) {
    writeFileAtomic(path, kept.map(({ text }) => `${text}\n`).join(''));
    this.handle = openSync(path, 'a');
  }

  /** Writes a whole line or nothing. NaN and infinities, which JSON lacks, are left out with a warning. */
  append(metrics: StepMetrics): void {
    const { finite, dropped } = finiteNumbers(metrics);
    if (dropped.length > 0)
      this.warn(
        `step ${metrics.step}: left out of the metrics because they are not finite: ${dropped.join(', ')}`,
      );
    appendWhole(this.handle, Buffer.from(`${JSON.stringify(finite)}\n`));
  }

  /** Flushes the lines so far to disk: before a checkpoint, so that none of its steps can be missing. */
  sync(): void {
    fsyncSync(this.handle);
  }

  close(): void {
    closeSync(this.handle);
  }
}

/** The lines of a run in step order. */
export function readMetrics(path: string): StepMetrics[] {
  return linesUpTo(path, Infinity).map(({ metrics }) => metrics);
}

/** The numbers of a line, whose line number is the step if it names none. Null: not a JSON object. */
function numbersOf(text: string, index: number): StepMetrics | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isRecord(value)) return null;
  const numbers = Object.entries(value).filter((entry) => typeof entry[1] === 'number');
  return { step: index + 1, ...(Object.fromEntries(numbers) as StepMetrics) };
}

/**
 * The lines of any file with one JSON object per line, whoever wrote it; values that are not numbers are left
 * out. A last line cut off by a crash counts as not written.
 * @throws BAD_INPUT for an unreadable file, or naming the first line that is not a JSON object
 */
export function readAnyMetrics(path: string): StepMetrics[] {
  let text: string;
  try {
    text = readRegularFileSync(path, MAX_TEXT_BYTES).toString('utf8');
  } catch (cause) {
    throw new AcoerError('BAD_INPUT', `Cannot read ${path}: ${whyUnreadable(cause)}`, { cause });
  }
  const lines = text.split('\n');
  return lines.flatMap((line, index) => {
    if (line.trim() === '') return [];
    const metrics = numbersOf(line, index);
    if (metrics !== null) return [metrics];
    if (index > 0 && index === lines.length - 1) return [];
    throw damagedLine(path, index);
  });
}
