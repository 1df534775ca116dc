/** Sums and products of matrices as trees, without evaluating the cells. */
import { integer, negated, type Node, some } from './ast';
import type { Budget } from './budget';

const MAX_SIZE = 16;

export function hasMatrix(node: Node): boolean {
  return some(node, (inner) => inner.kind === 'matrix');
}

/** The cells; null when this is no matrix or the sizes do not fit. Throws BudgetExceeded. */
export function matrixCells(node: Node, budget: Budget): Node[][] | null {
  budget.spend(4);
  switch (node.kind) {
    case 'matrix':
      return rectangular(node.rows) ? node.rows : null;
    case 'neg': {
      const inner = matrixCells(node.value, budget);
      return inner && mapCells(inner, negated);
    }
    case 'add': {
      const parts = node.terms.map((term) => matrixCells(term, budget));
      return parts.reduce((a, b) => (a && b ? sum(a, b) : null));
    }
    case 'mul':
      return product(node.factors, budget);
    case 'div': {
      const top = matrixCells(node.top, budget);
      return top && mapCells(top, (cell) => ({ kind: 'div', top: cell, bottom: node.bottom }));
    }
    default:
      return null;
  }
}

const mapCells = (rows: Node[][], change: (cell: Node) => Node): Node[][] =>
  rows.map((row) => row.map((cell) => change(cell)));

function rectangular(rows: Node[][]): boolean {
  const width = rows[0]!.length;
  return rows.length <= MAX_SIZE && width <= MAX_SIZE && rows.every((row) => row.length === width);
}

function sum(a: Node[][], b: Node[][]): Node[][] | null {
  if (a.length !== b.length || a[0]!.length !== b[0]!.length) return null;
  return a.map((row, i) => row.map((cell, j): Node => ({ kind: 'add', terms: [cell, b[i]![j]!] })));
}

function product(factors: readonly Node[], budget: Budget): Node[][] | null {
  let cells: Node[][] | null = null;
  let scalar: Node = integer(1);
  for (const factor of factors) {
    if (!hasMatrix(factor)) {
      scalar = { kind: 'mul', factors: [scalar, factor] };
      continue;
    }
    const next = matrixCells(factor, budget);
    cells = next === null ? null : cells === null ? next : times(cells, next, budget);
    if (cells === null) return null;
  }
  return cells && mapCells(cells, (cell) => ({ kind: 'mul', factors: [scalar, cell] }));
}

function times(a: Node[][], b: Node[][], budget: Budget): Node[][] | null {
  if (a[0]!.length !== b.length) return null;
  budget.spend(a.length * b.length * b[0]!.length);
  return a.map((row) =>
    b[0]!.map((_, j): Node => ({
      kind: 'add',
      terms: row.map((cell, k): Node => ({ kind: 'mul', factors: [cell, b[k]![j]!] })),
    })),
  );
}
