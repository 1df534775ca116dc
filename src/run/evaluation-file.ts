/** The files of an evaluation: completions appended as they end, and the settings they were made with. */
import {
  createReadStream,
  existsSync,
  openSync,
  closeSync,
  readFileSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { createInterface } from 'node:readline';
import { isDeepStrictEqual } from 'node:util';
import { AcoerError, errorMessage } from '../errors';
import { isRecord, shownJson } from '../json';
import { writeFileAtomic, writeJsonAtomic } from './atomic';
import { readJsonFile } from './directory';

type Json = Record<string, unknown>;

/** What is stored next to the completions. */
export interface EvaluationRecord {
  /** Everything an answer depends on. */
  settings: Json;
  /** null: not finished. */
  report: Json | null;
}

/** JSON has no undefined and no NaN, so compare what reading a file gives back. */
const throughJson = (value: unknown): Json => JSON.parse(JSON.stringify(value)) as Json;

function refuseOthers(path: string, stored: Json, wanted: Json): void {
  const names = [...new Set([...Object.keys(wanted), ...Object.keys(stored)])];
  const name = names.find((key) => !isDeepStrictEqual(stored[key], wanted[key]));
  if (name === undefined) return;
  throw new AcoerError(
    'RUN_EXISTS',
    `${path} contains an evaluation with other settings: ${name} is ${shownJson(stored[name], 200)} there, but ${shownJson(wanted[name], 200)} now. Choose another folder with --out.`,
  );
}

function readRecord(path: string): EvaluationRecord {
  const record = readJsonFile(path);
  const { settings, report } = isRecord(record) ? record : {};
  if (isRecord(settings) && (report === null || isRecord(report))) return { settings, report };
  throw new AcoerError(
    'BAD_INPUT',
    `${path} is not a record of an evaluation: it must have settings and a report.`,
  );
}

function parsedRow(path: string, line: string, number: number): Json {
  try {
    const row: unknown = JSON.parse(line);
    if (isRecord(row)) return row;
  } catch {
    // reported below
  }
  throw new AcoerError('BAD_INPUT', `${path} line ${number} is not a JSON object: the file is damaged.`);
}

/** Removes an incomplete last line, left by a process that died while writing it. */
function dropUnfinishedLine(path: string): void {
  const text = readFileSync(path);
  truncateSync(path, text.lastIndexOf(0x0a) + 1);
}

/** `<name>.jsonl` and `<name>.json` in one folder. */
export class EvaluationFile implements Disposable {
  readonly completions: string;
  private readonly record: string;
  private readonly handle: number;

  /**
   * Opens the files to start or to resume.
   * @throws RUN_EXISTS if they were made with other settings
   */
  constructor(
    folder: string,
    name: string,
    private readonly settings: object,
  ) {
    this.completions = `${folder}/${name}.jsonl`;
    this.record = `${folder}/${name}.json`;
    const wanted = throughJson(settings);
    if (existsSync(this.record)) {
      refuseOthers(this.record, readRecord(this.record).settings, wanted);
    } else if (existsSync(this.completions)) {
      throw new AcoerError(
        'RUN_EXISTS',
        `${this.completions} exists without ${this.record}, so its settings are unknown. Choose another folder with --out.`,
      );
    }
    try {
      if (existsSync(this.completions)) dropUnfinishedLine(this.completions);
      else writeFileAtomic(this.completions, '');
      if (!existsSync(this.record)) writeJsonAtomic(this.record, { settings: wanted, report: null });
      this.handle = openSync(this.completions, 'a');
    } catch (cause) {
      throw new AcoerError('BAD_INPUT', `Cannot write to ${folder}: ${errorMessage(cause)}`, { cause });
    }
  }

  /** The rows written by an earlier session, one at a time. */
  async *rows(): AsyncGenerator<Json> {
    const lines = createInterface({ input: createReadStream(this.completions), crlfDelay: Infinity });
    let number = 0;
    for await (const line of lines) yield parsedRow(this.completions, line, ++number);
  }

  append(row: object): void {
    writeSync(this.handle, `${JSON.stringify(row)}\n`);
  }

  finish(report: object): void {
    writeJsonAtomic(this.record, { settings: this.settings, report });
  }

  [Symbol.dispose](): void {
    closeSync(this.handle);
  }
}

/** The record that belongs to a file of completions, or null if there is none. */
export function recordOf(completions: string): EvaluationRecord | null {
  const path = completions.replace(/\.jsonl$/, '.json');
  return path !== completions && existsSync(path) ? readRecord(path) : null;
}
