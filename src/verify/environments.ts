/** Matrices: \begin{pmatrix} and its relatives. */
import { fn, type Node } from './ast';
import type { Parser } from './parser';
import { NotParsed } from './tokens';

/** After `\begin{kind}`: rows of cells up to `\end{kind}`. */
export function matrix(p: Parser, kind: string): Node {
  if (kind === 'cases') throw new NotParsed('cases');
  const rows: Node[][] = [];
  let row: Node[] = [];
  for (;;) {
    if (p.peek()?.t === 'end') break;
    row.push(p.expression());
    if (p.accept('&')) continue;
    rows.push(row);
    row = [];
    if (!p.accept('\\\\')) break;
  }
  const end = p.take();
  if (end.t !== 'end' || end.v !== kind || row.length > 0 || rows.length === 0) throw new NotParsed('unclosed matrix');
  return kind === 'vmatrix' ? fn('det', { kind: 'matrix', rows }) : { kind: 'matrix', rows };
}
