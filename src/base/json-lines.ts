/** Lines of bytes in which JSON Lines come, and errors that name a line. */
import { type AcoerError, badInput } from './errors';

export const NEWLINE = 0x0a;
/** Far more than any completion with its ids; a longer line is a damaged file or no JSON Lines at all. */
const MAX_LINE_BYTES = 1 << 27;

/** An error about one input line: exit 2. */
export function badLine(line: number, what: string): AcoerError {
  return badInput(`line ${line}: ${what}`);
}

/** The beginning of a line whose end has not arrived. */
export class Unfinished {
  private parts: Buffer[] = [];
  private length = 0;

  add(part: Buffer, line: number): void {
    this.length += part.length;
    if (this.length > MAX_LINE_BYTES) throw badLine(line, `longer than ${MAX_LINE_BYTES} bytes.`);
    this.parts.push(part);
  }

  /** The line that `end` completes. */
  take(end: Buffer): Buffer {
    const whole = this.parts.length === 0 ? end : Buffer.concat([...this.parts, end]);
    this.parts = [];
    this.length = 0;
    return whole;
  }
}

/** The lines of a byte stream without their line ends; the last newline may be missing. */
export async function* splitLines(bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const rest = new Unfinished();
  let line = 1;
  for await (const chunk of bytes) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      yield rest.take(chunk.subarray(start, end));
      start = end + 1;
      line++;
    }
    rest.add(chunk.subarray(start), line);
  }
  const end = rest.take(Buffer.of());
  if (end.length > 0) yield end;
}
