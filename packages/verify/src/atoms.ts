/** Atoms: numbers, names, groups and commands, with subscripts, powers and postfixes. */
import { fn, type Node } from './ast';
import { UNNAMED } from './bound';
import { FUNCTIONS, GREEK, VARIADIC } from './lexicon';
import { numberNode } from './numbers';
import type { Parser } from './parser';
import { NotParsed, type Token } from './tokens';
import { applied, bigOperator, numberSet, root, variadic } from './functions';
import { bracketed, group, matrix } from './groups';
import { PLAIN_NAMES } from './vocabulary';

/** Letters that name a function when a bracket follows. */
const FUNCTION_NAMES = new Set(['f', 'g', 'h', 'F', 'G', 'H', 'P', 'Q', 'W', 'T']);

/** An atom with its postfixes. */
export function atom(p: Parser): Node {
  return postfix(p, bare(p));
}

/** An atom without its postfixes. */
export function bare(p: Parser): Node {
  const token = p.take();
  switch (token.t) {
    case 'num':
      return number(p, token);
    case 'letters':
      return letters(p, token.v);
    case 'text':
      return { kind: 'text', value: words(token.v), phrase: token.v };
    case 'time':
      return { kind: 'time', minutes: Number(token.v) };
    case 'begin':
      return matrix(p, token.v);
    case 'op':
      return bracketed(p, token.v);
    case 'cmd':
      return command(p, token.v);
    default:
      throw new NotParsed(`unexpected ${token.v}`);
  }
}

/** The form in which words are compared: lower case, letters and digits only. */
export function words(text: string): string {
  return text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
}

function number(p: Parser, token: Token): Node {
  if (!p.accept('_')) return numberNode(token.v);
  p.accept('{');
  const written = p.take();
  p.accept('}');
  const base = written.t === 'num' && /^\d{1,2}$/.test(written.v) ? Number(written.v) : 0;
  if (base < 2 || base > 36) throw new NotParsed('subscript of a number');
  return { kind: 'base', digits: token.v, base, ...(token.inWords === true && { inWords: true }) };
}

/** A run of letters is a product of variables, unless the whole run is a name. */
function letters(p: Parser, run: string): Node {
  if (run.length > 3 && PLAIN_NAMES.has(run.toLowerCase()))
    return { kind: 'text', value: run.toLowerCase(), phrase: run };
  const factors: Node[] = [];
  for (let i = 0; i < run.length - 1; i++) factors.push(letter(run[i]!));
  const last = named(p, run.at(-1)!);
  if (factors.length === 0) return last;
  // A power or factorial applies to the last letter only.
  return { kind: 'mul', factors: [...factors, postfix(p, last)], run };
}

function letter(name: string): Node {
  return name === 'e' || name === 'i' ? { kind: 'const', name } : { kind: 'sym', name };
}

/** A letter or Greek letter with its primes, subscript and, for a function, its arguments. */
export function named(p: Parser, name: string): Node {
  let full = name;
  const first = p.peek(-2) === undefined || p.peek(-2)!.t === 'sep';
  while (p.accept("'") || p.accept('^', 'prime')) full += "'";
  if (FUNCTION_NAMES.has(name) && takesInverse(p)) full += '^-1';
  if (p.accept('_')) {
    const content = subscript(p);
    if (typeof content !== 'string') return { kind: 'apply', name: `${full}_`, args: [content] };
    full += `_${content}`;
  }
  const isFunction = FUNCTION_NAMES.has(name) || (first && isDefined(p));
  if (full === name && name.length === 1 && !isFunction) return letter(name);
  const applied = isFunction && (p.is('(') || (p.is('{') && p.is('(', 1)));
  if (!applied) return full === name ? letter(name) : { kind: 'sym', name: full };
  return call(p, full);
}

function call(p: Parser, name: string): Node {
  const argument = atomicGroup(p);
  if (argument.kind === 'tuple' && argument.close !== ')') throw new NotParsed('brackets of two kinds');
  return { kind: 'apply', name, args: argument.kind === 'tuple' ? argument.items : [argument] };
}

/** Whether `(x, y) =` comes next: at the beginning, any letter before it names a function. */
function isDefined(p: Parser): boolean {
  if (!p.is('(')) return false;
  let at = 1;
  for (; p.peek(at)?.t === 'letters' && p.peek(at)!.v.length === 1 && p.peek(at + 1)?.t === 'sep'; at += 2);
  return p.peek(at)?.t === 'letters' && p.is(')', at + 1) && p.is('=', at + 2);
}

/** Consumes the ^{-1} of f^{-1}(x); false if there is none. */
function takesInverse(p: Parser): boolean {
  const tokens = p.is('{', 1) ? ['^', '{', '-', '1', '}'] : ['^', '-', '1'];
  return p.is('(', tokens.length) && p.accept(...tokens);
}

export function atomicGroup(p: Parser): Node {
  return bracketed(p, p.take().v);
}

/** A plain label as a string; an index with a variable as an expression. */
function subscript(p: Parser): string | Node {
  // m_{\max}
  if (p.is('{') && p.peek(1)?.t === 'cmd' && p.is('}', 2)) {
    p.take();
    const label = p.take().v;
    p.take();
    return label;
  }
  const content = p.is('{') ? group(p) : bareIndex(p);
  if (content.kind === 'num' && !content.decimal) return content.value.n.toString();
  if (content.kind === 'text') return content.value;
  if (content.kind === 'mul' && content.run !== undefined) return content.run;
  return content;
}

export function bareIndex(p: Parser): Node {
  const token = p.take();
  if (token.t === 'num') return numberNode(token.v[0]!);
  if (token.t === 'letters') return letter(token.v[0]!);
  if (token.t === 'text') return { kind: 'text', value: words(token.v) };
  if (token.t === 'cmd') return { kind: 'sym', name: token.v };
  throw new NotParsed('no subscript');
}

/** Powers, factorials, percent signs, degrees. */
export function postfix(p: Parser, start: Node): Node {
  let node = start;
  for (;;) {
    if (p.accept('!')) node = fn('factorial', node);
    else if (p.accept('%')) node = { kind: 'percent', value: node };
    else if (p.accept('degree')) node = { kind: 'degree', value: node };
    else if (p.accept('^')) node = power(p, node);
    else return node;
  }
}

function power(p: Parser, base: Node): Node {
  if (p.accept('degree') || p.accept('{', 'degree', '}')) return { kind: 'degree', value: base };
  if (p.is('{') && p.peek(1)?.t === 'text' && /^\s*(?:st|nd|rd|th)\s*$/.test(p.peek(1)!.v) && p.is('}', 2)) {
    for (let i = 0; i < 3; i++) p.take();
    return base;
  }
  const braced = p.is('{') ? 1 : 0;
  const circle = p.peek(braced);
  if (base.kind === 'num' && circle?.t === 'letters' && circle.v === 'o' && (!braced || p.is('}', 2))) {
    for (let i = 0; i <= 2 * braced; i++) p.take();
    return { kind: 'degree', value: base };
  }
  if (base.kind === 'matrix' && (p.is('top') || p.peek()?.v === 'T' || (p.is('{') && p.peek(1)?.v === 'T'))) {
    p.accept('{');
    p.take();
    if (braced) p.expect('}');
    return { kind: 'matrix', rows: base.rows[0]!.map((_, j) => base.rows.map((row) => row[j]!)) };
  }
  return { kind: 'pow', base, exponent: exponent(p) };
}

/** `^{...}` or one token; accepts `10^-3`. */
export function exponent(p: Parser): Node {
  if (p.is('{')) return group(p);
  if (p.accept('-')) return { kind: 'neg', value: exponent(p) };
  if (p.accept('+')) return exponent(p);
  if (p.is('(')) {
    if (p.options.strictLatex) throw new NotParsed('power without braces');
    return atomicGroup(p);
  }
  if (isRun(p.peek())) return p.first(letter);
  const token = p.take();
  if (token.t === 'num') return numberNode(token.v);
  if (token.t === 'letters') return named(p, token.v);
  if (token.t === 'cmd') return command(p, token.v);
  throw new NotParsed('no exponent');
}

/** `{...}`, or as in LaTeX one digit or letter; with `many`, all digits of the number. */
export function argument(p: Parser, many: boolean): Node {
  if (p.is('{')) return group(p);
  if (p.options.strictLatex) throw new NotParsed('argument without braces');
  const token = p.peek();
  if (token?.t === 'num' && !many && token.v.length > 1) return p.first(numberNode);
  if (isRun(token)) return p.first(letter);
  return bare(p);
}

const isRun = (token: Token | undefined): boolean => token?.t === 'letters' && token.v.length > 1;

function command(p: Parser, name: string): Node {
  switch (name) {
    case 'frac':
      return { kind: 'div', top: argument(p, false), bottom: argument(p, true) };
    case 'binom':
      return fn('binom', argument(p, false), argument(p, true));
    case 'sqrt':
      return root(p);
    case 'pi':
      return { kind: 'const', name: 'pi' };
    case 'infty':
      return { kind: 'const', name: 'inf' };
    case 'emptyset':
      return { kind: 'empty' };
    case 'lfloor':
    case 'lceil': {
      const inner = p.expression();
      p.expect(name === 'lfloor' ? 'rfloor' : 'rceil');
      return fn(name === 'lfloor' ? 'floor' : 'ceil', inner);
    }
    case 'langle':
      return bracketed(p, 'langle');
    case UNNAMED:
      return call(p, UNNAMED);
    case 'mathbb':
      return numberSet(p);
    case 'sum':
    case 'prod':
      return bigOperator(p, name);
    case 'angle':
    case 'triangle':
    case 'measuredangle':
      // The name of a figure: the angle ABC is just ABC.
      return bare(p);
  }
  if (FUNCTIONS.has(name)) return applied(p, name);
  if (VARIADIC.has(name)) return variadic(p, name);
  if (GREEK.has(name)) return named(p, name);
  throw new NotParsed(`\\${name}`);
}
