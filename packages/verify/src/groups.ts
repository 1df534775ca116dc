/** Brackets (plain groups, tuples, intervals, sets, bars) and environments: matrices and cases. */
import { fn, type Node, type SetName } from './ast';
import { atom } from './atoms';
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

/** Parses what follows `\begin{kind}`: rows of cells up to `\end{kind}`. */
export function matrix(p: Parser, kind: string): Node {
  const rows: Node[][] = [];
  let row: Node[] = [];
  for (;;) {
    if (p.peek()?.t === 'end') break;
    row.push(kind === 'cases' ? cell(p) : p.expression());
    if (p.accept('&')) continue;
    rows.push(row);
    row = [];
    if (!p.accept('\\\\')) break;
  }
  const end = p.take();
  if (end.t !== 'end' || end.v !== kind || row.length > 0 || rows.length === 0)
    throw new NotParsed('unclosed matrix');
  if (kind === 'cases') return cases(rows);
  return kind === 'vmatrix' ? fn('det', { kind: 'matrix', rows }) : { kind: 'matrix', rows };
}

const CONDITION = /^[\s,]*(?:if|when|for|where|whenever|as)[\s:]*$/i;

/** A formula, `\text{if } x > 0`, `x > 0` or `\text{otherwise}`; a comma before a condition separates. */
function cell(p: Parser): Node {
  if (CONDITION.test(p.peek()?.t === 'text' ? p.peek()!.v : '') && !/^(?:&|\\\\)$/.test(p.peek(1)?.v ?? '&'))
    p.take();
  const value = p.relation();
  while (p.peek()?.t === 'sep' || p.is('.')) p.take();
  return value;
}

/** Several equations, or values with their conditions in any order. */
function cases(rows: Node[][]): Node {
  if (rows.every((row) => row.length === 1)) {
    return rows.length === 1 ? rows[0]![0]! : { kind: 'set', items: rows.flat() };
  }
  return { kind: 'set', items: rows.map((items): Node => ({ kind: 'tuple', open: '[', close: ']', items })) };
}
