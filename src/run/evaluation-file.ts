/**
 * The files of evaluations: completions appended as they end, and the settings they were made with, in a
 * folder that is locked while it is written.
 */
import { closeSync, existsSync, fstatSync, ftruncateSync, readdirSync, readSync, rmdirSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { AcoerError, badInput, unreadable, whyUnwritten } from '../base/errors';
import { makeFolders } from '../base/folders';
import { openRegularFile, openToAppend } from '../base/regular-file';
import { isRecord, parsedJson, shownJson } from '../base/json';
import { NEWLINE, splitLines } from '../base/json-lines';
import { AppendedFile, writeFileAtomic, writeJsonAtomic } from './atomic';
import { readJsonFile } from './directory';
import { RunLock } from './lock';

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
  throw badInput(`${path} is not a record of an evaluation: it must have settings and a report.`);
}

/** A row, and its file and line for messages. */
export interface EvaluationRow {
  values: Json;
  where: string;
}

/** Finds rows that are not an evaluation's own, or there already. */
class Answers {
  private readonly found = new Map<string, string>();

  constructor(private readonly settings: Json) {}

  add({ values, where }: EvaluationRow): void {
    const { benchmark, prompt_index: index, sample } = values;
    const { settings } = this;
    const below = (value: unknown, limit: unknown): boolean =>
      Number.isSafeInteger(value) &&
      (value as number) >= 0 &&
      (typeof limit !== 'number' || (value as number) < limit);
    if (!below(index, settings.problems) || !below(sample, settings.samples)) {
      throw foreign(where, `prompt_index ${shownJson(index)}, sample ${shownJson(sample)}`);
    }
    if (settings.benchmark !== undefined && benchmark !== settings.benchmark) {
      throw foreign(where, `benchmark ${shownJson(benchmark)}`);
    }
    const key = `${String(index)} ${String(sample)}`;
    const before = this.found.get(key);
    if (before !== undefined) {
      throw badInput(
        `${where} has an answer that is there already: prompt_index ${index as number}, sample ${sample as number} of ${before}. Remove one of the lines to continue.`,
      );
    }
    this.found.set(key, where);
  }
}

const foreign = (where: string, what: string) =>
  badInput(`${where} does not belong to this evaluation: ${what}. Remove the line to continue.`);

function parsedRow(text: string, where: string): EvaluationRow {
  const values = parsedJson(text);
  if (isRecord(values)) return { values, where };
  throw badInput(`${where} is not a JSON object: the file is damaged. Remove the line to continue.`);
}

async function* checkedRows(path: string, answers: Answers): AsyncGenerator<EvaluationRow> {
  let number = 0;
  const { file } = await openRegularFile(path).catch((cause: unknown) => {
    throw unreadable(path, cause);
  });
  for await (const line of splitLines(file.createReadStream())) {
    const row = parsedRow(line.toString(), `${path} line ${++number}`);
    answers.add(row);
    yield row;
  }
}

/**
 * The rows of a finished evaluation, one at a time.
 * @throws BAD_INPUT naming the line that is damaged, foreign, or an answer that is there twice
 */
export const evaluationRows = (path: string, { settings }: EvaluationRecord): AsyncGenerator<EvaluationRow> =>
  checkedRows(path, new Answers(settings));

const CHUNK_BYTES = 1 << 16;

/** Removes an incomplete last line, left by a process that died while writing it. */
function dropUnfinishedLine(path: string): void {
  const handle = openToAppend(path);
  try {
    cutUnfinished(handle);
  } finally {
    closeSync(handle);
  }
}

function cutUnfinished(handle: number): void {
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let end = fstatSync(handle).size;
  while (end > 0) {
    const start = Math.max(0, end - CHUNK_BYTES);
    const read = readSync(handle, chunk, 0, end - start, start);
    const newline = chunk.subarray(0, read).lastIndexOf(NEWLINE);
    if (newline >= 0) return ftruncateSync(handle, start + newline + 1);
    end = start;
  }
  ftruncateSync(handle);
}

/** A folder of evaluations that this process writes to. */
export class EvaluationFolder implements Disposable {
  private readonly lock: RunLock;
  private readonly made: boolean;

  /** @throws RUN_LOCKED if another process writes there */
  constructor(readonly path: string) {
    this.made = !existsSync(path);
    try {
      makeFolders(path);
    } catch (error) {
      throw cannotWrite(path, error);
    }
    try {
      this.lock = RunLock.acquire(path);
    } catch (error) {
      throw error instanceof AcoerError ? error : cannotWrite(path, error);
    }
  }

  /** @throws RUN_EXISTS if the files were made with other settings */
  open(name: string, settings: object): EvaluationFile {
    return new EvaluationFile(this.path, name, settings, this.lock);
  }

  /** Unlocks the folder, and removes it if it was made for nothing. */
  [Symbol.dispose](): void {
    this.lock.release();
    if (this.made && existsSync(this.path) && readdirSync(this.path).length === 0) rmdirSync(this.path);
  }
}

const cannotWrite = (folder: string, cause: unknown) =>
  badInput(`Cannot write to ${folder}: ${whyUnwritten(cause)}`, cause);

/** `<name>.jsonl` and `<name>.json` in one folder. */
export class EvaluationFile implements Disposable {
  readonly completions: string;
  private readonly record: string;
  private readonly file: AppendedFile;
  private readonly answers: Answers;

  constructor(
    folder: string,
    name: string,
    private readonly settings: object,
    private readonly lock: RunLock,
  ) {
    this.completions = `${folder}/${name}.jsonl`;
    this.record = `${folder}/${name}.json`;
    const wanted = throughJson(settings);
    this.answers = new Answers(wanted);
    if (existsSync(this.record)) {
      refuseOthers(this.record, readRecord(this.record).settings, wanted);
    } else if (existsSync(this.completions)) {
      throw new AcoerError(
        'RUN_EXISTS',
        `${this.completions} exists without ${this.record}, so its settings are unknown. Choose another folder with --out.`,
      );
    }
    try {
      if (!existsSync(this.completions)) writeFileAtomic(this.completions, '');
      if (!existsSync(this.record)) writeJsonAtomic(this.record, { settings: wanted, report: null });
      dropUnfinishedLine(this.completions);
      this.file = new AppendedFile(this.completions);
    } catch (cause) {
      throw cannotWrite(folder, cause);
    }
  }

  /**
   * The rows written by an earlier session, one at a time; read them before appending.
   * @throws BAD_INPUT naming the line that is damaged, foreign, or an answer that is there twice
   */
  rows(): AsyncGenerator<EvaluationRow> {
    return checkedRows(this.completions, this.answers);
  }

  /**
   * Writes a whole row or nothing.
   * @throws WRITE_FAILED if the folder is gone or another process took it over
   */
  append(values: Json): void {
    this.answers.add({ values, where: `A new row of ${this.completions}` });
    this.lock.assertHeld();
    if (!this.file.isIntact()) {
      throw new AcoerError(
        'WRITE_FAILED',
        `${this.completions} was replaced, removed or changed by something else; repeat the command to evaluate what it lacks.`,
      );
    }
    this.file.append(Buffer.from(`${JSON.stringify(values)}\n`));
  }

  finish(report: object): void {
    this.lock.assertHeld();
    writeJsonAtomic(this.record, { settings: this.settings, report });
  }

  [Symbol.dispose](): void {
    this.file.close();
  }
}

/** The record that belongs to a file of completions, or null if there is none. */
export function recordOf(completions: string): EvaluationRecord | null {
  const path = completions.replace(/\.jsonl$/, '.json');
  return path !== completions && existsSync(path) ? readRecord(path) : null;
}
