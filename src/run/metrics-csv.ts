/** metrics.csv: metrics.jsonl as a table, a row per step and a column per number in the order they appear. */
import { finiteNumbers } from '../base/json';
import type { StepMetrics } from '../base/types';
import { AppendedFile, writeFileAtomic } from './atomic';
import { readMetrics } from './metrics-file';

/** Quoted as in RFC 4180 where necessary. */
const quoted = (name: string): string => (/[",\r\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name);

export class MetricsCsv {
  private columns: string[] = [];
  private file: AppendedFile | null = null;

  /** @param source metrics.jsonl, of which each line is written before it is given here */
  constructor(
    private readonly path: string,
    private readonly source: string,
  ) {
    this.rewrite();
  }

  /** Adds a row; a number that no earlier row has adds a column, for which the file is written again, as when somebody else has replaced it. */
  append(metrics: StepMetrics): void {
    const { finite } = finiteNumbers(metrics);
    const isNew = Object.keys(finite).some((name) => !this.columns.includes(name));
    if (isNew || !this.file!.isIntact()) this.rewrite();
    else this.file!.append(Buffer.from(this.row(finite)));
  }

  private rewrite(): void {
    const lines = readMetrics(this.source);
    this.columns = [...new Set(lines.flatMap((line) => Object.keys(line)))];
    const header = lines.length === 0 ? '' : `${this.columns.map(quoted).join(',')}\n`;
    writeFileAtomic(this.path, header + lines.map((line) => this.row(line)).join(''));
    this.close();
    this.file = new AppendedFile(this.path);
  }

  private row(metrics: StepMetrics): string {
    return `${this.columns.map((name) => metrics[name] ?? '').join(',')}\n`;
  }

  close(): void {
    this.file?.close();
    this.file = null;
  }
}
