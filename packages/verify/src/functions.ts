/** Commands with special arguments: roots, functions, number sets, sums and products. */
import { fn, integer, type Node, type SetName } from './ast';
import { argument, atom, atomicGroup, bareIndex, exponent, postfix } from './atoms';
import { group } from './groups';
import { FUNCTIONS, GREEK } from './lexicon';
import type { Parser } from './parser';
import { NotParsed } from './tokens';

const SET_NAMES = new Set(['R', 'Z', 'N', 'Q', 'C', 'P']);

export function root(p: Parser): Node {
  let degree: Node = integer(2);
  if (p.accept('[')) {
    degree = p.expression();
    p.expect(']');
  }
  // `\sqrt15` is meant as the root of fifteen.
  return fn('root', argument(p, true), degree);
}

export function numberSet(p: Parser): Node {
  const content = p.is('{') ? group(p) : bareIndex(p);
  if (content.kind !== 'sym' || !SET_NAMES.has(content.name)) throw new NotParsed('unknown set');
  return { kind: 'named', name: content.name as SetName };
}

/** Consumes `\mathbf{Z}` or a plain `Z` after \in. */
export function numberSetLetter(p: Parser): Node | null {
  const token = p.peek();
  if (token?.t !== 'letters' || !SET_NAMES.has(token.v)) return null;
  const next = p.peek(1);
  const ends =
    next === undefined || next.t === 'sep' || next.t === 'text' || ['|', ':', '}set', ')'].includes(next.v);
  if (!ends) return null;
  p.take();
  return { kind: 'named', name: token.v as SetName };
}

/** \sin x, \sin^2 x, \log_2 n, \log{(n)}. */
export function applied(p: Parser, name: string): Node {
  let base: Node | null = null;
  let raised: Node | null = null;
  for (let i = 0; i < 2; i++) {
    if (base === null && p.accept('_')) base = p.is('{') ? group(p) : bareIndex(p);
    if (raised === null && p.accept('^')) raised = exponent(p);
  }
  const operand = functionArgument(p);
  const inverse = raised?.kind === 'neg' && raised.value.kind === 'num' && raised.value.value.n === 1n;
  const minusOne = inverse || (raised?.kind === 'num' && raised.value.n === -1n);
  const named = minusOne && FUNCTIONS.has(`arc${name}`) ? `arc${name}` : name;
  const call = base === null ? fn(named, operand) : fn(named, operand, base);
  return raised === null || minusOne ? call : { kind: 'pow', base: call, exponent: raised };
}

/** The argument in brackets, or without them the product that follows, up to the next function. */
function functionArgument(p: Parser): Node {
  if (p.is('(') || p.is('{') || p.is('[')) return postfix(p, atomicGroup(p));
  if (p.accept('-')) return { kind: 'neg', value: functionArgument(p) };
  const factors = [atom(p)];
  for (;;) {
    const token = p.peek();
    const name = token?.t === 'cmd' ? token.v : '';
    const isCommand = GREEK.has(name) || ['pi', 'frac', 'sqrt'].includes(name);
    if (!isCommand && token?.t !== 'num' && (token?.t !== 'letters' || p.isUnit(token))) break;
    factors.push(atom(p));
  }
  const product: Node = factors.length === 1 ? factors[0]! : { kind: 'mul', factors };
  const divided = p.peek(1)?.t === 'num' && p.accept('/');
  return divided ? { kind: 'div', top: product, bottom: atom(p) } : product;
}

export function variadic(p: Parser, name: string): Node {
  const inner = atomicGroup(p);
  const args = inner.kind === 'tuple' || inner.kind === 'set' ? inner.items : [inner];
  return { kind: 'fn', name, args };
}

export function bigOperator(p: Parser, op: 'sum' | 'prod'): Node {
  let range: Node | null = null;
  let to: Node | null = null;
  for (let i = 0; i < 2; i++) {
    if (p.accept('_')) range = rangeStart(p);
    else if (p.accept('^')) to = exponent(p);
  }
  if (range?.kind !== 'relation' || range.sides[0]?.kind !== 'sym' || to === null)
    throw new NotParsed('no range');
  const body = p.expression(30);
  return { kind: 'bigop', op, variable: range.sides[0].name, from: range.sides[1]!, to, body };
}

/** The range {k=1}; i and e are ordinary index names here. */
function rangeStart(p: Parser): Node {
  p.expect('{');
  const token = p.take();
  p.expect('=');
  const from = p.expression();
  p.expect('}');
  if (token.t !== 'letters' || token.v.length !== 1) throw new NotParsed('no index');
  return { kind: 'relation', sides: [{ kind: 'sym', name: token.v }, from], ops: ['='] };
}
