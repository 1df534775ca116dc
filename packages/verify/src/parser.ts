/** A Pratt parser. Arithmetic binds tighter than set operations, and those tighter than relations. */
import { MAX_DEPTH, MAX_ITEMS } from './budget';
import { type Node, type NodeOf, num, type RelationOp } from './ast';
import { atom, bare, postfix } from './atoms';
import { denies, hedgeOf, isMinus, scaleOf } from './hedges';
import type { ParseOptions } from './options';
import { clockTime } from './times';
import { rational } from './rational';
import { between, betweenNumbers } from './relations';
import { numberSetLetter } from './functions';
import { NotParsed, type Token } from './tokens';
import { PLAIN_NAMES } from './vocabulary';

const RELATIONS: ReadonlyMap<string, RelationOp> = new Map<string, RelationOp>([
  ['=', '='], ['≡', '='], ['<', '<'], ['>', '>'], ['le', '<='], ['ge', '>='], ['ne', '!='], ['approx', '~'], ['in', '='],
]); // prettier-ignore

const SET_OPERATIONS: ReadonlyMap<string, 'union' | 'intersection' | 'difference'> = new Map([
  ['cup', 'union'], ['cap', 'intersection'], ['setminus', 'difference'], ['bigcup', 'union'], ['bigcap', 'intersection'],
] as const); // prettier-ignore

/** Binding powers. Implicit products bind tighter than `/`: 1/2x is 1/(2x). */
const CHOOSE = 5;
const ADDITIVE = 20;
const MULTIPLICATIVE = 30;
const UNARY = 35;
const IMPLICIT = 40;

export class Parser {
  private at = 0;
  private depth = 0;
  /** Number of open | bars; inside them a bar closes. */
  bars = 0;

  constructor(
    private readonly tokens: Token[],
    readonly options: ParseOptions,
  ) {}

  peek(ahead = 0): Token | undefined {
    return this.tokens[this.at + ahead];
  }

  take(): Token {
    const token = this.tokens[this.at++];
    if (token === undefined) throw new NotParsed('unexpected end');
    return token;
  }

  is(v: string, ahead = 0): boolean {
    const token = this.peek(ahead);
    return token !== undefined && token.t !== 'text' && token.t !== 'letters' && token.v === v;
  }

  /** Consumes the next tokens if they are these. */
  accept(...values: string[]): boolean {
    if (!values.every((v, ahead) => this.is(v, ahead))) return false;
    this.at += values.length;
    return true;
  }

  expect(v: string): void {
    if (!this.accept(v)) throw new NotParsed(`expected ${v}`);
  }

  get done(): boolean {
    return this.at >= this.tokens.length;
  }

  /** Runs `parse`; if it throws NotParsed, goes back to where it began and returns null. */
  attempt<T>(parse: () => T): T | null {
    const [at, depth, bars] = [this.at, this.depth, this.bars];
    try {
      return parse();
    } catch (error) {
      if (!(error instanceof NotParsed)) throw error;
      [this.at, this.depth, this.bars] = [at, depth, bars];
      return null;
    }
  }

  /** Consumes the first letter or digit of the next token. */
  first(make: (character: string) => Node): Node {
    const token = this.peek()!;
    this.tokens[this.at] = { ...token, v: token.v.slice(1), space: false };
    return make(token.v[0]!);
  }

  private nest<T>(parse: () => T): T {
    if (++this.depth > MAX_DEPTH) throw new NotParsed('nested too deep');
    const result = parse();
    this.depth--;
    return result;
  }

  /** Items up to an end (or the end of input), as more than one list when semicolons separate them. */
  lists(isEnd: () => boolean): Node[][] {
    const groups: Node[][] = [[]];
    let count = 0;
    let and = false;
    let or = false;
    while (!this.done && !isEnd()) {
      if (this.peek()!.t === 'sep') {
        const { v } = this.take();
        and = v === 'and' || (and && v === ',');
        or ||= v === 'or';
        if (v === ';' && groups.at(-1)!.length > 0) groups.push([]);
        continue;
      }
      if (++count > MAX_ITEMS) throw new NotParsed('too many items');
      const items = groups.at(-1)!;
      const item = this.relation();
      const join = and ? between : betweenNumbers;
      const both = items.length === 1 && !or ? join(items[0]!, item) : null;
      if (both === null) items.push(item);
      else items[0] = both;
      and = false;
      or = false;
      if (!this.done && !isEnd() && this.peek()!.t !== 'sep') throw new NotParsed('two answers side by side');
    }
    return groups.filter((group) => group.length > 0);
  }

  relation(): Node {
    return this.nest(() => {
      const sides = [this.setExpression()];
      const ops: RelationOp[] = [];
      let congruence = false;
      for (;;) {
        const token = this.peek();
        const op = token?.t === 'cmd' || token?.t === 'op' ? RELATIONS.get(token.v) : undefined;
        if (op === undefined) break;
        this.take();
        congruence ||= token!.v === '≡';
        ops.push(op);
        sides.push((token!.v === 'in' ? numberSetLetter(this) : null) ?? this.setExpression());
        if (ops.length > MAX_ITEMS) throw new NotParsed('too many relations');
      }
      const modulus = this.modulus();
      const last = sides.at(-1)!;
      if (modulus !== null) sides[sides.length - 1] = { kind: 'fn', name: 'residue', args: [last, modulus] };
      else if (congruence && last.kind === 'fn' && last.name === 'mod')
        sides[sides.length - 1] = { ...last, name: 'residue' };
      if (ops.length === 0) return sides[0]!;
      // x \text{ is not} = 26, \text{lower bound} = 26
      const [denied] = sides.slice(0, -1).flatMap((side) => denial(side) ?? []);
      if (denied !== undefined) sides[sides.length - 1] = hedged(denied, sides.at(-1)!);
      return { kind: 'relation', sides, ops };
    });
  }

  /** \pmod{11}, (mod 11) */
  private modulus(): Node | null {
    if (this.accept('pmod')) return atom(this);
    if (!this.accept('(', 'mod')) return null;
    const modulus = this.expression();
    this.expect(')');
    return modulus;
  }

  private setExpression(): Node {
    let left = this.expression();
    for (;;) {
      const token = this.peek();
      const op = token?.t === 'cmd' ? SET_OPERATIONS.get(token.v) : undefined;
      if (op === undefined) return left;
      this.take();
      const right = this.expression();
      left = { kind: 'setop', op, parts: [left, right] };
    }
  }

  expression(minimum = 0): Node {
    return this.nest(() => {
      let left = this.prefix();
      for (;;) {
        const next = this.infix(left, minimum);
        if (next === null) return left;
        left = next;
      }
    });
  }

  private prefix(): Node {
    if (this.accept('+')) return this.expression(UNARY);
    if (this.accept('-')) return negative(this.expression(UNARY));
    if (this.is('pm') || this.is('mp')) {
      const flipped = this.take().v === 'mp';
      return { kind: 'pm', value: this.expression(UNARY), flipped };
    }
    return atom(this);
  }

  private infix(left: Node, minimum: number): Node | null {
    const token = this.peek();
    if (token === undefined || token.t === 'sep' || token.t === 'end') return null;
    const { v } = token;
    if (token.t === 'op' || token.t === 'cmd') {
      const signed = v === '+' || v === '-' || v === 'pm' || v === 'mp';
      const isPhrase = left.kind === 'text' && left.value.length > 1;
      if (isPhrase && (signed || this.accept(':'))) return this.afterWords(left);
      if (signed) return minimum > ADDITIVE ? null : this.sum(left);
      if (v === 'choose') {
        if (minimum > CHOOSE) return null;
        this.take();
        return { kind: 'fn', name: 'binom', args: [left, this.expression(CHOOSE + 1)] };
      }
      if (v === '(' && this.is('mod', 1)) return null;
      if (v === '*' || v === '/' || v === ':' || v === 'mod') {
        return minimum > MULTIPLICATIVE ? null : this.product(left);
      }
    }
    if (minimum > IMPLICIT || !this.startsAtom(token)) return null;
    return this.juxtaposed(left);
  }

  private sum(left: Node): Node {
    const { v } = this.take();
    const right = this.expression(ADDITIVE + 1);
    if (v === 'pm' || v === 'mp')
      return { kind: 'add', terms: [left, { kind: 'pm', value: right, flipped: v === 'mp' }] };
    const terms = left.kind === 'add' ? left.terms : [left];
    return { kind: 'add', terms: [...terms, v === '-' ? negative(right) : right] };
  }

  private product(left: Node): Node {
    const [before, op] = [this.tokens[this.at - 1], this.take().v];
    const next = this.peek();
    // 30 \text{ m}/\text{s}: a unit is dropped.
    if (op !== ':' && this.isUnit(next)) return this.withWords(left, this.wordsHere());
    const right = this.expression(MULTIPLICATIVE + 1);
    if (op === 'mod') return { kind: 'fn', name: 'mod', args: [left, right] };
    if (op === '*') return { kind: 'mul', factors: [left, right] };
    const isNumber = op === ':' && left.kind === 'num' && before?.t === 'num' && next?.t === 'num';
    const clock = isNumber ? clockTime(before.v, next.v) : null;
    return { kind: 'div', top: left, bottom: right, ...(clock !== null && { clock }) };
  }

  isUnit(token: Token | undefined): boolean {
    if (token?.t === 'text') return true;
    return token?.t === 'letters' && token.v.length > 1 && PLAIN_NAMES.has(token.v.toLowerCase());
  }

  /** Consumes the words that follow, with the powers of units: `\text{kg}\cdot\text{m}^2`. */
  private wordsHere(): string {
    let words = '';
    for (;;) {
      const token = this.peek()!;
      words += `${token.space ? ' ' : ''}${token.v}`;
      this.unit();
      const joined = (this.is('*') || this.is('/')) && this.isUnit(this.peek(1));
      if (joined) words += this.take().v;
      else if (this.isUnit(this.peek())) words += ' ';
      else return words;
    }
  }

  /** A value with the words after it. */
  private withWords(left: Node, words: string): Node {
    const scale = scaleOf(words);
    const hedge = hedgeOf(scale?.rest ?? words, 'after');
    if (hedge !== null) return hedged(hedge, left);
    const next = this.peek();
    // 3 \text{ feet } 2 \text{ inches}, 26 \text{ times } 2
    if (next !== undefined && next.t !== 'begin' && this.startsAtom(next))
      throw new NotParsed('a value after words');
    return scale === null ? left : { kind: 'mul', factors: [left, num({ n: scale.factor, d: 1n })] };
  }

  /** Skips a unit with its power. */
  unit(): void {
    this.take();
    if (!this.accept('^')) return;
    if (this.accept('{')) {
      while (!this.accept('}')) this.take();
    } else {
      this.accept('-');
      this.take();
    }
  }

  private juxtaposed(left: Node): Node {
    if (left.kind === 'text') return this.afterWords(left);
    const token = this.peek()!;
    if (this.isUnit(token)) return this.withWords(left, this.wordsHere());
    if (this.unitFraction()) return left;
    // 25^\circ C
    if (left.kind === 'degree' && token.t === 'letters' && /^[CFK]$/.test(token.v)) {
      this.take();
      return left;
    }
    const mixed = this.mixedNumber(left);
    if (mixed !== null) return mixed;
    const right = this.expression(IMPLICIT + 1);
    if (right.kind === 'text') return this.withWords(left, ` ${right.phrase ?? right.value}`);
    const factors = left.kind === 'mul' && left.run === undefined ? left.factors : [left];
    return { kind: 'mul', factors: [...factors, right] };
  }

  /** \text{Answer: } 5 is 5, \text{at least } 5 is not. */
  private afterWords({ value, phrase = value }: NodeOf<'text'>): Node {
    if (isMinus(phrase)) return negative(this.expression(IMPLICIT));
    const hedge = hedgeOf(phrase, 'before');
    return hedge === null ? this.expression(IMPLICIT) : hedged(hedge, this.expression());
  }

  /** Consumes a fraction of units, \frac{\text{g}}{\text{cm}^3}; false if there is none. */
  private unitFraction(): boolean {
    const taken = this.attempt(() => {
      this.expect('frac');
      for (let part = 0; part < 2; part++) {
        this.expect('{');
        do {
          if (!this.isUnit(this.peek()) || hedgeOf(` ${this.peek()!.v}`, 'after') !== null)
            throw new NotParsed('no unit');
          this.unit();
          this.accept('*');
        } while (!this.accept('}'));
      }
      return true;
    });
    return taken !== null;
  }

  /** 3\frac12 and `3 1/2` are three and a half. */
  private mixedNumber(left: Node): Node | null {
    if (left.kind !== 'num' || left.decimal) return null;
    if (this.is('frac') || (this.is('{') && this.is('frac', 1))) {
      const fraction = bare(this);
      const proper =
        fraction.kind === 'div' && fraction.top.kind === 'num' && fraction.bottom.kind === 'num' &&
        fraction.top.value.n > 0n; // prettier-ignore
      // The % of 33\frac13\% applies to the whole number, a power only to the fraction.
      if (proper && !this.is('^')) return postfix(this, { kind: 'add', terms: [left, fraction] });
      const parts = [left, postfix(this, fraction)];
      return proper ? { kind: 'add', terms: parts } : { kind: 'mul', factors: parts };
    }
    const [top, slash, bottom] = [this.peek(), this.peek(1), this.peek(2)];
    const spelled = top?.t === 'num' && top.space && slash?.v === '/' && bottom?.t === 'num';
    if (!spelled || [top.v, bottom.v].some((digits) => digits.includes('.'))) return null;
    this.at += 3;
    const [n, d] = [BigInt(top.v), BigInt(bottom.v)];
    if (d === 0n) throw new NotParsed('division by zero');
    return postfix(this, { kind: 'add', terms: [left, num(rational(n, d))] });
  }

  private startsAtom(token: Token): boolean {
    if (['num', 'letters', 'text', 'begin', 'time'].includes(token.t)) return true;
    if (token.t === 'cmd') {
      return !RELATIONS.has(token.v) && !SET_OPERATIONS.has(token.v) &&
        !['rfloor', 'rceil', 'rangle', 'to', 'notin', 'choose', 'pmod'].includes(token.v); // prettier-ignore
    }
    if (token.v === '|') return this.bars === 0;
    return ['(', '[', '{', '{set'].includes(token.v);
  }
}

/** The words by which the name of a value says that it is something else, or null. */
function denial(name: Node): string | null {
  const words = name.kind === 'text' ? (name.phrase ?? name.value) : name.kind === 'apply' ? name.name : '';
  return denies(words) ? words.replace(/^#/, '') : null;
}

/** A value with words that change its meaning: equal only to one with the same words. */
function hedged(words: string, value: Node): Node {
  return { kind: 'apply', name: `#${words}`, args: [value] };
}

export function negative(value: Node): Node {
  if (value.kind === 'num') return num({ n: -value.value.n, d: value.value.d }, value.decimal);
  return { kind: 'neg', value };
}
