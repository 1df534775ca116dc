/** Brackets: plain groups, tuples, intervals, sets, bars. */
import { fn, type Node, type SetName } from './ast';
import { atom } from './atoms';
import { matrix } from './environments';
import type { Parser } from './parser';
import { numberSetLetter } from './functions';
import { NotParsed } from './tokens';

/** Parses what follows the opening bracket `open`, which has been consumed. */
export function bracketed(p: Parser, open: string): Node {
  switch (open) {
    case '(':
    case '[':
      return roundOrSquare(p, open);
    case '{':
      return braces(p);
    case '{set': {
      const built = p.attempt(() => builder(p));
      if (built !== null) return built;
      if (p.peek()?.t === 'begin' && p.peek()?.v === 'cases') return openCases(p);
      const { items } = inside(p, ['}set']);
      return items.length === 0 ? { kind: 'empty' } : { kind: 'set', items };
    }
    case 'langle':
      return tuple('(', ')', inside(p, ['rangle']).items);
    case '|': {
      p.bars++;
      const inner = p.expression();
      p.bars--;
      p.expect('|');
      return fn('abs', inner);
    }
    default:
      throw new NotParsed(`unexpected ${open}`);
  }
}

/** \left\{ before a list of cases, which need not be closed. */
function openCases(p: Parser): Node {
  const items = matrix(p, p.take().v);
  p.accept('}set');
  return items;
}

/** \{x \in \mathbb{R} \mid x > 3\}: the set its conditions allow. Integers between bounds become a list. */
function builder(p: Parser): Node {
  const token = p.take();
  if (token.t !== 'letters' || token.v.length !== 1) throw new NotParsed('no name');
  const over = p.accept('in') ? (numberSetLetter(p) ?? atom(p)) : null;
  if (!p.accept('|') && !p.accept(':')) throw new NotParsed('no condition');
  const conditions: Node[] = [];
  let or = false;
  while (!p.is('}set')) {
    conditions.push(p.relation());
    while (p.peek()?.t === 'sep') or = p.take().v === 'or' || or;
  }
  p.expect('}set');
  const members = conditions.map(membership);
  const bounds = conditions.filter((_, i) => members[i] === null);
  if (bounds.length === 0 || bounds.some(({ kind }) => kind !== 'relation'))
    throw new NotParsed('no condition');
  const inCondition = members.find((member) => member !== null) ?? 'R';
  const name = over?.kind === 'named' ? over.name : over === null ? inCondition : null;
  if (name === null) throw new NotParsed('not over numbers');
  const allowed = bounds.reduce((a, b) => ({
    kind: 'setop',
    op: or ? 'union' : 'intersection',
    parts: [a, b],
  }));
  return { kind: 'setop', op: 'intersection', parts: [allowed, { kind: 'named', name }] };
}

/** The set in a condition `x \in \mathbb{Z}`, or null. */
function membership(node: Node): SetName | null {
  const right =
    node.kind === 'relation' && node.ops.length === 1 && node.ops[0] === '=' ? node.sides[1] : null;
  return right?.kind === 'named' ? right.name : null;
}

/** A LaTeX group `{...}`, from its opening brace: one expression. */
export function group(p: Parser): Node {
  p.expect('{');
  return braces(p);
}

function braces(p: Parser): Node {
  const { items } = inside(p, ['}']);
  if (items.length === 0) throw new NotParsed('empty braces');
  return items.length === 1 ? items[0]! : { kind: 'set', items };
}

/** The items up to one of `ends`, which is consumed. Bars inside are matched separately. */
function inside(p: Parser, ends: readonly string[]): { items: Node[]; close: string } {
  const bars = p.bars;
  p.bars = 0;
  const isEnd = (): boolean => ends.some((end) => p.is(end));
  const lists = p.lists(isEnd);
  if (!isEnd()) throw new NotParsed('unclosed bracket');
  p.bars = bars;
  return { items: lists.flat(), close: p.take().v };
}

function roundOrSquare(p: Parser, open: '(' | '['): Node {
  const { items, close } = inside(p, [')', ']']);
  const matches = (open === '(') === (close === ')');
  if (items.length === 0) throw new NotParsed('empty brackets');
  if (items.length === 1) {
    if (!matches) throw new NotParsed('brackets of two kinds');
    return items[0]!;
  }
  if (items.length > 2 && !matches) throw new NotParsed('brackets of two kinds');
  return tuple(open, close as ')' | ']', items);
}

function tuple(open: '(' | '[', close: ')' | ']', items: Node[]): Node {
  return items.length === 1 ? items[0]! : { kind: 'tuple', open, close, items };
}
