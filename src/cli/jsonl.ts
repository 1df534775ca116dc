/** JSON Lines: every line is checked before the first result, without holding all in memory. */
// eslint-disable-next-line no-restricted-imports -- input that is read once may be a pipe
import { closeSync, constants, createReadStream, fstatSync, openSync } from 'node:fs';
// eslint-disable-next-line no-restricted-imports -- opens a file that it has just made
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AcoerError, badInput, errorMessage, unreadable } from '../base/errors';
import { badLine, NEWLINE, Unfinished } from '../base/json-lines';
import { isRecord } from '../base/json';
import { Pace } from '../base/pace';
import { printNote } from './output';

const utf8 = new TextDecoder('utf-8', { fatal: true });

export interface JsonLine {
  /** Line number in the input, from 1. */
  line: number;
  value: unknown;
}

/** The value of a line, a description of what is wrong with it, or null for a blank line. */
function parseLine(raw: Buffer): { value: unknown } | { problem: string } | null {
  let text: string;
  try {
    text = utf8.decode(raw).trim();
  } catch {
    return { problem: 'not UTF-8 text; save the input as UTF-8.' };
  }
  if (text === '') return null;
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { problem: `not JSON (${errorMessage(error)}); write one JSON object per line.` };
  }
}

/** The values of a JSON Lines stream, skipping blank lines. Throws BAD_INPUT naming the line. */
export async function* parseJsonLines(bytes: AsyncIterable<Buffer>): AsyncGenerator<JsonLine> {
  for await (const lines of parseLinesAsTheyCome(bytes)) {
    for (const line of lines) {
      if ('problem' in line) throw badLine(line.line, line.problem);
      yield line;
    }
  }
}

type LineOrProblem = JsonLine | { line: number; problem: string };

/** Like `parseJsonLines`, but bad lines are passed on, and lines come in lists as soon as they arrive. */
export async function* parseLinesAsTheyCome(bytes: AsyncIterable<Buffer>): AsyncGenerator<LineOrProblem[]> {
  let line = 0;
  const parse = (raw: Buffer): LineOrProblem[] => {
    line++;
    const parsed = parseLine(raw);
    return parsed === null ? [] : [{ line, ...parsed }];
  };
  const rest = new Unfinished();
  for await (const chunk of bytes) {
    const last = chunk.lastIndexOf(NEWLINE);
    if (last >= 0) yield linesOf(rest.take(chunk.subarray(0, last))).flatMap(parse);
    rest.add(chunk.subarray(last + 1), line + 1);
  }
  const end = rest.take(Buffer.of());
  if (end.length > 0) yield parse(end);
}

function linesOf(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, start)) {
    lines.push(bytes.subarray(start, end));
    start = end + 1;
  }
  lines.push(bytes.subarray(start));
  return lines;
}

/** The line as an object. @throws BAD_INPUT */
export function objectOf({ line, value }: JsonLine): Record<string, unknown> {
  if (isRecord(value)) return value;
  throw badLine(line, 'not a JSON object.');
}

const isAFolder = (name: string) => badInput(`${name} is a folder; name a JSON Lines file.`);

/** Stdin or a pipe, which may have nothing to read for a long time. */
let waiting: Socket | NodeJS.ReadStream | null = null;

/** Ends the wait for more of the input: its reader gets CANCELLED. */
export function stopReading(): void {
  waiting?.destroy(new AcoerError('CANCELLED', 'interrupted'));
}

/**
 * Standard input if `path` is '-' or missing, else the file. A named pipe, such as the shell's `<(zcat x)`, is
 * read as it comes, since these commands read their input once and in order.
 */
export async function openInput(path: string | undefined): Promise<AsyncIterable<Buffer>> {
  if (path === undefined || path === '-') {
    if (fstatSync(0).isDirectory()) throw isAFolder('Standard input');
    if (process.stdin.isTTY) printNote('reading JSON Lines from the terminal; press Ctrl-D to end');
    return (waiting = process.stdin);
  }
  try {
    // Opening a pipe would wait for its writer, which could not be interrupted.
    // eslint-disable-next-line no-restricted-syntax -- input that is read once may be a pipe
    const handle = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const info = fstatSync(handle);
    if (info.isFIFO()) return (waiting = new Socket({ fd: handle, readable: true, writable: false }));
    if (info.isFile()) return createReadStream(path, { fd: handle });
    closeSync(handle);
    // A terminal, opened without waiting, would say that it has nothing yet.
    if (!info.isDirectory()) return createReadStream(path);
  } catch (error) {
    throw unreadable(path, error);
  }
  throw isAFolder(path);
}

/** Checked input lines in an unlinked temporary file, so nothing needs cleaning up if the process dies. */
export class Spool<T> implements AsyncDisposable {
  count = 0;
  private constructor(private readonly file: FileHandle) {}

  static async create<T>(): Promise<Spool<T>> {
    const directory = await mkdtemp(join(tmpdir(), 'acoer-input-'));
    try {
      return new Spool<T>(await open(join(directory, 'lines'), 'w+'));
    } finally {
      await rm(directory, { recursive: true });
    }
  }

  /** Appends the result of `check` for every line of `path` (standard input if it is '-' or missing). */
  async fill(path: string | undefined, check: (line: JsonLine) => T): Promise<void> {
    let pending: string[] = [];
    let pendingChars = 0;
    const flush = async (): Promise<void> => {
      await this.file.appendFile(pending.join(''));
      pending = [];
      pendingChars = 0;
    };
    const pace = new Pace();
    for await (const line of parseJsonLines(await openInput(path))) {
      await pace.turn();
      const text = `${JSON.stringify(check(line))}\n`;
      this.count++;
      pending.push(text);
      pendingChars += text.length;
      if (pendingChars > 1 << 20) await flush();
    }
    await flush();
  }

  async *read(): AsyncGenerator<T> {
    const bytes = this.file.createReadStream({ start: 0, autoClose: false });
    for await (const { value } of parseJsonLines(bytes)) yield value as T;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.file.close();
  }
}

/** Emits results in the order 0, 1, 2, ... as early as possible, whatever order they arrive in. */
export class InOrder<T> {
  private readonly waiting = new Map<number, T>();
  private next = 0;

  constructor(private readonly emit: (value: T) => void) {}

  add(position: number, value: T): void {
    this.waiting.set(position, value);
    for (let ready = this.waiting.get(this.next); ready !== undefined; ready = this.waiting.get(this.next)) {
      this.waiting.delete(this.next++);
      this.emit(ready);
    }
  }

  /** After an interruption: emits in order whatever is still waiting for a missing result. */
  flush(): void {
    for (const position of [...this.waiting.keys()].sort((a, b) => a - b)) {
      this.emit(this.waiting.get(position) as T);
      this.waiting.delete(position);
    }
  }
}
