/**
 * LaTeX (or plain text) to tokens. Everything that only affects layout is gone after this step: spacing,
 * sizes, dollar signs, synonyms. Spaces are kept as a flag, because "1, 234" is a list and "1,234" a number.
 */
import { MAX_DIGITS, MAX_TOKENS } from './budget';
import { ACCENTS, CURRENCIES, IGNORED, MEASURES, SYNONYMS, TEXT, WORD_COMMANDS } from './lexicon';
import { closingBrace } from './markup';
import { ordinalAt, repeatingAt } from './number-text';
import { isCompoundUnit, meaningOf, textOf } from './text';
import { timeAt } from './times';

export interface Token {
  /**
   * time: minutes since midnight. num: digits, possibly with a point, an exponent (1e3) or a repeating part
   * (0.1(6)). letters: a run of letters. cmd: a command or word command. text: words. sep: and, or, comma,
   * semicolon.
   */
  t: 'num' | 'letters' | 'cmd' | 'op' | 'text' | 'sep' | 'begin' | 'end' | 'time';
  v: string;
  /** Whitespace, or something shown as such, came before it. */
  space: boolean;
  /** That space was \quad or wider. */
  wide?: boolean;
  /** Its base is written in words. */
  inWords?: boolean;
}

export const operator = (v: string): Token => ({ t: 'op', v, space: false });

/** Whether `token` is one of these signs or commands. */
export const isSign = (token: Token | undefined, ...values: string[]): boolean =>
  (token?.t === 'op' || token?.t === 'cmd') && values.includes(token.v);

const OPENING: ReadonlySet<string> = new Set(['(', '[', '{', '{set']);
const CLOSING: ReadonlySet<string> = new Set([')', ']', '}', '}set']);

/** 1 for an opening bracket, -1 for a closing one. */
export const nesting = ({ t, v }: Token): number =>
  t !== 'op' ? 0 : OPENING.has(v) ? 1 : CLOSING.has(v) ? -1 : 0;

/** The text cannot be parsed as an answer: it is too long or malformed. */
export class NotParsed extends Error {}

/** The result of `parse`, or null where it throws NotParsed. */
export function attempt<T>(parse: () => T): T | null {
  try {
    return parse();
  } catch (error) {
    if (error instanceof NotParsed) return null;
    throw error;
  }
}

/** The value of a comma that can only separate thousands: `,\\!` and `{,}`. */
export const THOUSANDS = ',!';

/** Two signs that are one. */
const PAIRS = new Map(
  Object.entries({ '!=': 'ne', '<=': 'le', '>=': 'ge', '==': '=', ':=': '=', '**': '^' }),
);
const ALIGNED = /^(?:aligned|align|alignedat|alignat|gathered|gather|split|eqnarray)$/;
const SUCH_THAT = /^(?:such that|where|with|for which|s\.\s*t\.)$/;

export class Tokenizer {
  readonly tokens: Token[] = [];
  private at = 0;
  private space = false;
  private wide = false;
  private inMatrix = 0;
  /** Kinds of the open environments. */
  private readonly environments: string[] = [];

  /** @param text in plain spelling (spelling.ts) */
  constructor(private readonly text: string) {}

  /** Throws NotParsed when a size limit is exceeded. */
  run(): Token[] {
    while (this.at < this.text.length) {
      this.next();
      if (this.tokens.length > MAX_TOKENS) throw new NotParsed('too many tokens');
    }
    return this.tokens;
  }

  private push(t: Token['t'], v: string): void {
    this.tokens.push({ t, v, space: this.space, ...(this.wide && { wide: true }) });
    this.space = false;
    this.wide = false;
  }

  private next(): void {
    const rest = this.text;
    const sign = rest[this.at]!;
    if (sign === '\\') return this.command();
    if (/\s|~/.test(sign)) {
      if (sign === '~' && rest[this.at + 1] === '=') {
        this.at += 2;
        return this.push('cmd', 'approx');
      }
      this.at++;
      this.space = true;
    } else if (
      /[0-9]/.test(sign) ||
      (sign === '.' && /^\.(?:\d|\\(?:overline|bar|dot)\b)/.test(rest.slice(this.at, this.at + 10)))
    ) {
      this.number();
    } else if (/[a-zA-Z]/.test(sign)) {
      this.letters();
    } else {
      this.sign(sign);
    }
  }

  private number(): void {
    const ahead = this.text.slice(this.at, this.at + 2 * MAX_DIGITS);
    const time = /^\d{1,2}(?!\d)/.test(ahead) ? timeAt(ahead) : null;
    if (time !== null) {
      this.at += time.length;
      return this.push('time', String(time.minutes));
    }
    const repeating = repeatingAt(ahead);
    if (repeating !== null) {
      this.at += repeating.length;
      return this.push('num', repeating.digits);
    }
    const match = /^(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,3}(?![\d.a-zA-Z]))?/.exec(ahead);
    // The point of `AB.\overline{CD}` begins no number.
    if (match === null) return this.sign('.');
    if (match[0].length > MAX_DIGITS) throw new NotParsed('too many digits');
    this.at += match[0].length;
    this.push('num', match[0]);
    if (/^\d+$/.test(match[0])) this.at += ordinalAt(ahead.slice(match[0].length, match[0].length + 40));
  }

  private letters(): void {
    const run = /^[a-zA-Z]+/.exec(this.text.slice(this.at, this.at + MAX_DIGITS))![0];
    this.at += run.length;
    if (run === 'U' && this.joinsSets()) return this.push('cmd', 'cup');
    if (CURRENCIES.has(run) && this.beside(/^\.?[\s$\\]{0,4}\d/)) {
      if (run === 'Rs' && this.text[this.at] === '.') this.at++;
      return this.push('text', run);
    }
    const command = WORD_COMMANDS.get(run) ?? WORD_COMMANDS.get(run.toLowerCase());
    if (
      command === undefined ||
      this.isMinutes(run) ||
      (run.length === 2 && command !== 'pi' && command !== 'ln' && run !== run.toLowerCase())
    ) {
      return this.push('letters', run);
    }
    this.word(command);
  }

  /** Whether a number is before this place, or `ahead` matches after it. */
  private beside(ahead: RegExp): boolean {
    return this.tokens.at(-1)?.t === 'num' || ahead.test(this.text.slice(this.at, this.at + 8));
  }

  /** `\\text{P}(2,3)` at the beginning or after a separator. */
  private namesPoint(): boolean {
    const last = this.tokens.at(-1);
    return (last === undefined || last.t === 'sep') && /^\s*\(/.test(this.text.slice(this.at, this.at + 8));
  }

  /** The U of `(1,2) U (3,4)` stands between a bracket with several items and another bracket. */
  private joinsSets(): boolean {
    if (!/^[\s}]*(?:\(|\[|\\\{)/.test(this.text.slice(this.at, this.at + 16))) return false;
    const close = this.tokens.at(-1)?.v;
    if (close === '}set') return true;
    if (close !== ')' && close !== ']') return false;
    const open = this.tokens.findLastIndex(({ t, v }) => t === 'op' && (v === '(' || v === '['));
    return this.tokens.slice(open).some(({ t }) => t === 'sep');
  }

  /** `8 min` is a duration; `min` before a bracket is a function. */
  private isMinutes(word: string): boolean {
    const last = this.tokens.at(-1);
    const value = last?.t === 'num' || last?.v === '}' || last?.v === ')';
    return word === 'min' && value && !/^\}?\s*[({\\_]/.test(this.text.slice(this.at, this.at + 8));
  }

  private word(command: string): void {
    if (command === 'and' || command === 'or') return this.push('sep', command);
    if (command === '%') return this.push('op', '%');
    this.push('cmd', command);
  }

  private sign(sign: string): void {
    const two = this.text.slice(this.at, this.at + 2);
    this.at += 1;
    const known = PAIRS.get(two);
    if (known !== undefined) {
      this.at += 1;
      return this.push(known === '=' || known === '^' ? 'op' : 'cmd', known);
    }
    if (sign === '$' || sign === '"' || sign === '`' || (sign === '&' && this.aligns())) return;
    if (/[£€¥₹₽¢✓✔☑✅]/u.test(sign)) return;
    if (sign === '{' && /^\s*:\s*\}/.test(this.text.slice(this.at, this.at + 8))) {
      this.at = this.text.indexOf('}', this.at) + 1;
      return this.push('op', ':');
    }
    // `127{}^\circ` and `86{\,}485`: empty braces, or a space in braces, after a number.
    const blank = sign === '{' ? /^(?:\\!|\s)*\}/.exec(this.text.slice(this.at, this.at + 16)) : null;
    if (blank !== null && this.tokens.at(-1)?.t === 'num') {
      this.at += blank[0].length;
      this.space ||= blank[0].length > 1;
      return;
    }
    if (sign === ',' || sign === ';') return this.push('sep', sign);
    this.push('op', sign);
  }

  /** `&` outside a matrix is for alignment, as in `&=`; also next to a relation in a list of cases. */
  private aligns(): boolean {
    if (this.inMatrix === 0) return true;
    if (this.environments.at(-1) !== 'cases') return false;
    const last = this.tokens.at(-1);
    return this.beforeRelation() || ['=', '<', '>', 'le', 'ge'].includes(last?.v ?? '');
  }

  private beforeRelation(): boolean {
    return /^\s*(?:\[[^\]]{0,8}\]\s*)?&?\s*(?:[=<>≡]|\\(?:leq?|geq?|approx|equiv|neq?|iff|implies|Rightarrow)(?![a-zA-Z])|\\end)/.test(
      this.text.slice(this.at, this.at + 40),
    );
  }

  /** A line of aligned formulas that begins with a relation continues the line before. */
  private newLine(): void {
    this.space = true;
    this.at +=
      /^\s*\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm|in)\s*\]/.exec(this.text.slice(this.at, this.at + 24))?.[0]
        .length ?? 0;
    if (this.inMatrix > 0) this.push('op', '\\\\');
    else if (ALIGNED.test(this.environments.at(-1) ?? '') && !this.beforeRelation()) this.push('sep', ',');
  }

  private command(): void {
    if (this.text[this.at + 1] === '\\') {
      this.at += 2;
      return this.newLine();
    }
    let name = /^\\([a-zA-Z]+|[^])?/.exec(this.text.slice(this.at, this.at + 64))![1] ?? '';
    // Models often write a space command without the space after it: \quadx.
    if (/^q?quad[a-z]/.test(name)) name = name.slice(0, name.indexOf('d') + 1);
    this.at += 1 + name.length;
    if (name === '') return;
    if (name === '!' || name === 'quad' || name === 'qquad') return this.spacing(name);
    if (IGNORED.has(name) || ACCENTS.has(name)) return;
    if (TEXT.has(name)) return this.words(name);
    if (name === 'begin' || name === 'end') return this.environment(name);
    if (MEASURES.has(name)) return this.measure(name);
    if (name === 'genfrac') return this.generalFraction();
    if (name === 'cr') return this.newLine();
    if (name === 'not') return this.negated();
    const known = SYNONYMS.get(name) ?? name;
    if (known === 'and' || known === 'or') return this.push('sep', known);
    if (/^[a-zA-Z]/.test(known)) return this.push('cmd', known);
    this.push('op', known);
  }

  /** siunitx: \ang{30}, \num{1e3}, \SI{5}{\metre}. */
  private measure(name: string): void {
    this.nested((this.group() ?? '').replace(/;/g, ' '));
    if (name === 'ang') this.push('cmd', 'degree');
    else if (name !== 'num') this.group();
  }

  /** \genfrac{(}{)}{0pt}{}{5}{2} is a binomial coefficient. */
  private generalFraction(): void {
    const [open] = [this.group(), this.group(), this.group(), this.group()];
    this.push('cmd', open?.trim() === '(' ? 'binom' : 'frac');
  }

  private negated(): void {
    const match = /^\s*(?:=|\\equiv|\\in(?![a-z]))/.exec(this.text.slice(this.at, this.at + 16));
    this.at += match?.[0].length ?? 0;
    this.push('cmd', match?.[0].endsWith('in') ? 'notin' : 'ne');
  }

  private spacing(name: string): void {
    // The negative thin space in `1,\!234` joins the digits.
    const last = this.tokens.at(-1);
    if (name === '!') {
      if (last?.v === ',' && !last.space && !this.space) last.v = THOUSANDS;
      return this.joinDigits();
    }
    this.space = true;
    this.wide = true;
  }

  /** `9\\!5` shows 95; an exponent or the argument of a command is one digit, so nothing joins it. */
  private joinDigits(): void {
    const [before, last] = [this.tokens.at(-2), this.tokens.at(-1)];
    const argument = before?.v === '^' || before?.v === '_' || before?.t === 'cmd' || before?.v === '}';
    if (last?.t !== 'num' || !/^[\d.]+$/.test(last.v) || this.space || argument) return;
    const more = /^\d+(?:\.\d+)?/.exec(this.text.slice(this.at, this.at + MAX_DIGITS))?.[0] ?? '';
    if (last.v.includes('.') && more.includes('.')) return;
    if (last.v.length + more.length > MAX_DIGITS) throw new NotParsed('too many digits');
    last.v += more;
    this.at += more.length;
  }

  /** Consumes the braces that follow and returns their content, or null when there are none. */
  private group(): string | null {
    const open = /^\s*\{/.exec(this.text.slice(this.at, this.at + 16));
    if (open === null) return null;
    const start = this.at + open[0].length;
    const close = closingBrace(this.text, start);
    this.at = close < 0 ? this.text.length : close + 1;
    return this.text.slice(start, close < 0 ? undefined : close);
  }

  private words(name: string): void {
    const content = this.group();
    if (content === null) return;
    const text = textOf(content);
    this.space ||= text === '';
    if (text === '') return;
    if (/^(?:U|union)$/.test(text) && this.joinsSets()) return this.push('cmd', 'cup');
    if (/^[A-Z]$/.test(text) && this.namesPoint()) return this.push('letters', text);
    const half = /^([ap])\.?\s*m\.?$/i.exec(text)?.[1];
    if (half !== undefined && this.markTime(half)) return;
    if (SUCH_THAT.test(text) && this.isInSet()) return this.push('op', '|');
    if (/^(?:is|equals|is equal to)$/i.test(text) && this.tokens.length > 0) return this.push('op', '=');
    const last = this.tokens.at(-1);
    if (isCompoundUnit(text) && (last?.t === 'num' || ['}', ')'].includes(last?.v ?? '')))
      return this.push('text', text.replace(/\\cdot|[^a-zA-Z]+/g, ' '));
    const command = this.isMinutes(text)
      ? undefined
      : (WORD_COMMANDS.get(text) ?? WORD_COMMANDS.get(text.toUpperCase().replaceAll('.', '')));
    if (command !== undefined) return this.word(command);
    for (const part of meaningOf(name, content)) {
      if ('formula' in part) this.nested(part.formula);
      else this.push(part.t, part.v);
    }
  }

  private isInSet(): boolean {
    const count = (v: string): number =>
      this.tokens.filter((token) => token.t === 'op' && token.v === v).length;
    return count('{set') > count('}set');
  }

  /** `\text{3:05}\text{ a.m.}`: adds the mark to the time in the tokens before; false if there is none. */
  private markTime(half: string): boolean {
    const count = this.tokens.at(-2)?.v === ':' ? 3 : 1;
    const written = this.tokens.slice(-count);
    const time = timeAt(`${written.map(({ v }) => v).join('')} ${half}.m.`);
    if (time === null || written.some(({ t, v }) => t !== 'num' && v !== ':')) return false;
    this.tokens.splice(-count);
    this.push('time', String(time.minutes));
    return true;
  }

  /** Tokenizes text that turns out to be mathematics. */
  private nested(content: string): void {
    const inner = new Tokenizer(content).run();
    if (inner.length > 0) inner[0] = { ...inner[0]!, space: this.space };
    this.space = false;
    this.tokens.push(...inner);
  }

  /** Whether the array that begins here has relations in it: it lists equations and is no matrix. */
  private hasEquations(): boolean {
    const end = this.text.indexOf('\\end', this.at);
    return /[=<>]|\\(?:leq?|geq?)(?![a-zA-Z])/.test(this.text.slice(this.at, end < 0 ? undefined : end));
  }

  private environment(name: 'begin' | 'end'): void {
    let kind = (this.group() ?? '').replace('*', '').trim();
    if (/cases$/.test(kind)) kind = 'cases';
    if (name === 'begin' && /^(?:array|alignedat|alignat)$/.test(kind)) this.group();
    if (name === 'begin' && /^(?:array|matrix)$/.test(kind) && this.hasEquations()) kind = 'cases';
    // \left\{ before an array opens a list of cases.
    const opens = name === 'begin' && this.tokens.at(-1)?.v === '{set';
    if (opens && (/^(?:array|matrix)$/.test(kind) || ALIGNED.test(kind))) kind = 'cases';
    if (name === 'end' && this.environments.at(-1) === 'cases') kind = 'cases';
    const isMatrix = /matrix$|^array$|^cases$/.test(kind);
    if (!isMatrix && !ALIGNED.test(kind)) return;
    if (name === 'begin') this.environments.push(kind);
    else this.environments.pop();
    if (!isMatrix) return;
    this.inMatrix += name === 'begin' ? 1 : -1;
    this.push(name, kind);
  }
}

/** Throws NotParsed. */
export function tokenize(text: string): Token[] {
  return new Tokenizer(text).run();
}

/** A string that is the same for answers that differ only in layout. */
export function tokenKey(tokens: readonly Token[]): string {
  return tokens
    .map((token) => (token.t === 'text' ? token.v.replace(/\s+/g, ' ').trim().toLowerCase() : token.v))
    .join(' ');
}
