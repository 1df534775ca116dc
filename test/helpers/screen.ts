/** A terminal's screen: what is left standing after a program has written to it. */

/** Understands what our live block writes; anything else fails the test. */
export class Screen {
  /** All lines ever shown, those that scrolled away first. */
  readonly lines: string[] = [''];
  cursorShown = true;
  private row = 0;
  private column = 0;

  constructor(private readonly columns: number) {}

  readonly write = (text: string): boolean => {
    // A colour takes no place.
    const tokens = text.replace(/\x1b\[\d+m/g, '').match(/\x1b\[\??[\d;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+|\x1b/g); // eslint-disable-line no-control-regex
    for (const token of tokens ?? []) this.obey(token);
    return true;
  };

  private obey(token: string): void {
    const up = /^\x1b\[(\d+)A$/.exec(token); // eslint-disable-line no-control-regex
    if (up !== null) this.row = Math.max(0, this.row - Number(up[1]));
    else if (token === '\r') this.column = 0;
    else if (token === '\n') this.newLine();
    else if (token === '\x1b[K') this.lines[this.row] = this.line.slice(0, this.column);
    else if (token === '\x1b[2K') this.lines[this.row] = '';
    else if (token === '\x1b[J') this.clearBelow();
    else if (token === '\x1b[?25l') this.cursorShown = false;
    else if (token === '\x1b[?25h') this.cursorShown = true;
    else if (token.startsWith('\x1b')) throw new Error(`unexpected ${JSON.stringify(token)}`);
    else for (const character of token) this.put(character);
  }

  private get line(): string {
    return this.lines[this.row] ?? '';
  }

  private put(character: string): void {
    if (this.column >= this.columns) this.newLine();
    const line = this.line.padEnd(this.column);
    this.lines[this.row] = line.slice(0, this.column) + character + line.slice(this.column + 1);
    this.column++;
  }

  private newLine(): void {
    this.row++;
    this.column = 0;
    if (this.row === this.lines.length) this.lines.push('');
  }

  private clearBelow(): void {
    this.lines[this.row] = this.line.slice(0, this.column);
    this.lines.length = this.row + 1;
  }
}
