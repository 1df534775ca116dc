/** Brackets: plain groups, tuples, intervals, sets, bars. */
import { fn, type Node } from './ast';
import type { Parser } from './parser';
import { NotParsed } from './tokens';

/** What follows the opening bracket `open`, which is already taken. */
export function bracketed(p: Parser, open: string): Node {
  switch (open) {
    case '(':
    case '[':
      return roundOrSquare(p, open);
    case '{':
      return braces(p);
    case '{set': {
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

/** `{...}` of LaTeX, from its opening brace: one expression. */
export function group(p: Parser): Node {
  p.expect('{');
  return braces(p);
}

function braces(p: Parser): Node {
  const { items } = inside(p, ['}']);
  if (items.length === 0) throw new NotParsed('empty braces');
  return items.length === 1 ? items[0]! : { kind: 'set', items };
}

/** The items up to one of `ends`, which is taken. Bars inside are bars of their own. */
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
