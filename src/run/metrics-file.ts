/** metrics.jsonl: one JSON object per finished step, appended when the step ends. */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { StepMetrics } from '../types';
import { writeFileAtomic } from './atomic';

/** The lines of steps up to `lastStep`; a line cut off by a crash counts as not written. */
function linesUpTo(text: string, lastStep: number): string[] {
  const whole = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  return whole.filter((line) => line !== '' && (JSON.parse(line) as { step: number }).step <= lastStep);
}

export class MetricsFile {
  private readonly handle: number;

  /**
   * Opens `path` to go on behind step `lastStep`: later lines (of steps that will be made again) are dropped.
   * @param warn told of every number left out because it is not finite
   */
  constructor(
    path: string,
    lastStep: number,
    private readonly warn: (message: string) => void,
  ) {
    const kept = existsSync(path) ? linesUpTo(readFileSync(path, 'utf8'), lastStep) : [];
    writeFileAtomic(path, kept.map((line) => `${line}\n`).join(''));
    this.handle = openSync(path, 'a');
  }

  /** Writes one line. JSON has no NaN and no infinities: such numbers are left out, with a warning. */
  append(metrics: StepMetrics): void {
    const entries = Object.entries(metrics);
    const bad = entries
      .filter(([, value]) => !Number.isFinite(value))
      .map(([name, value]) => `${name}=${value}`);
    if (bad.length > 0) this.warn(`step ${metrics.step}: not finite, so not written: ${bad.join(', ')}`);
    const line = JSON.stringify(Object.fromEntries(entries.filter(([, value]) => Number.isFinite(value))));
    writeSync(this.handle, `${line}\n`);
  }

  /** Forces the lines so far to disk: before a checkpoint, so that none of its steps can be missing. */
  sync(): void {
    fsyncSync(this.handle);
  }

  close(): void {
    closeSync(this.handle);
  }
}

/** The lines of a run, in step order. */
export function readMetrics(path: string): StepMetrics[] {
  if (!existsSync(path)) return [];
  return linesUpTo(readFileSync(path, 'utf8'), Infinity).map((line) => JSON.parse(line) as StepMetrics);
}
