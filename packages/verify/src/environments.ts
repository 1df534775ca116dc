/** Matrices and cases: \begin{pmatrix} and the like. */
import { fn, type Node } from './ast';
import type { Parser } from './parser';
import { NotParsed } from './tokens';

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

/**
 * A formula, `\text{if } x > 0`, `x > 0` or `\text{otherwise}`; a comma before the condition only separates.
 */
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
