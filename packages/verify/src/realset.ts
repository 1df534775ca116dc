/** Sets of reals as sorted disjoint pieces: intervals, unions, complements, solutions of inequalities. */
import { integer, type Node, type NodeOf, type RelationOp, type SetName } from './ast';
import { isNameLike } from './answer';
import type { Budget } from './budget';
import * as C from './complex';
import { order } from './digits';
import { exactValue } from './exact';
import { numericValue } from './numeric';
import { negative } from './parser';
import { compare } from './rational';
import { type CompareContext, equalScalars, infinite } from './scalar';

/** An end of a piece, with its value as a double for sorting. */
interface End {
  node: Node;
  value: number;
  open: boolean;
  budget: Budget | null;
}

export interface Piece {
  low: End;
  high: End;
}

/** Sorted, disjoint, not touching. */
export type RealSet = Piece[];

const INFINITY: Node = { kind: 'const', name: 'inf' };
const LOWEST: End = { node: negative(INFINITY), value: -Infinity, open: true, budget: null };
const HIGHEST: End = { node: INFINITY, value: Infinity, open: true, budget: null };
const ALL: RealSet = [{ low: LOWEST, high: HIGHEST }];

function end(node: Node, open: boolean, context: CompareContext): End | null {
  const sign = infinite(node);
  if (sign !== 0) return { node, value: sign * Infinity, open: true, budget: null };
  const value = numericValue(node, { budget: context.budget });
  if (!C.isFinite(value) || Math.abs(value.im) > 1e-12) return null;
  return { node, value: value.re, open, budget: context.budget };
}

/** Negative when `a` is below `b`, 0 when they are equal. Doubles decide when the ends are clearly apart. */
function compareEnds(a: End, b: End): number {
  const size = Math.max(Math.abs(a.value), Math.abs(b.value));
  const byDoubles = a.value === b.value ? 0 : a.value - b.value;
  if (size === Infinity || Math.abs(a.value - b.value) > 1e-9 * size) return byDoubles;
  const budget = a.budget ?? b.budget;
  if (budget === null) return byDoubles;
  const [x, y] = [exactValue(a.node, { budget }), exactValue(b.node, { budget })];
  if (x !== null && y !== null) return compare(x, y);
  return order(a.node, b.node, budget) ?? byDoubles;
}

function isEmpty({ low, high }: Piece): boolean {
  const sign = compareEnds(low, high);
  return sign === 0 ? low.open || high.open : sign > 0;
}

/**
 * What a tuple of two is: `interval` when its ends are in order, `empty` for a half-open one
 * whose ends are not in order, `symbolic` when its ends cannot be ordered, else `pair`.
 */
export function readPair(
  node: NodeOf<'tuple'>,
  context: CompareContext,
): { reading: 'pair' | 'empty' | 'symbolic' } | { reading: 'interval'; piece: Piece } {
  const [openLow, openHigh] = [node.open === '(', node.close === ')'];
  const [low, high] = [end(node.items[0]!, openLow, context), end(node.items[1]!, openHigh, context)];
  if (low === null || high === null) return { reading: 'symbolic' };
  const piece = { low, high };
  const sign = compareEnds(low, high);
  if (sign < 0) return { reading: 'interval', piece };
  if (openLow !== openHigh) return { reading: 'empty' };
  return sign === 0 && !openLow ? { reading: 'interval', piece } : { reading: 'pair' };
}

/** The set that `node` describes, or null when it cannot be represented. Throws BudgetExceeded. */
export function realSet(node: Node, context: CompareContext): RealSet | null {
  context.budget.spend();
  switch (node.kind) {
    case 'empty':
      return [];
    case 'named':
      return node.name === 'R' ? ALL : null;
    case 'tuple': {
      if (node.items.length !== 2 || node.names !== undefined) return null;
      const read = readPair(node, context);
      if (read.reading === 'interval') return [read.piece];
      if (read.reading === 'empty') return [];
      return read.reading === 'pair' ? points(node.items, context) : null;
    }
    case 'set': {
      const inner = node.items.map((item) =>
        item.kind === 'tuple' || item.kind === 'relation' ? realSet(item, context) : points([item], context),
      );
      return inner.every((set) => set !== null) ? union(inner.flat()) : null;
    }
    case 'setop':
      return operation(node, context);
    case 'relation':
      return ofRelation(node, context);
    default:
      return points([node], context);
  }
}

function points(nodes: readonly Node[], context: CompareContext): RealSet | null {
  const pieces: Piece[] = [];
  for (const node of nodes) {
    const at = end(node, false, context);
    if (at === null || !Number.isFinite(at.value)) return null;
    pieces.push({ low: at, high: at });
  }
  return union(pieces);
}

function operation(node: NodeOf<'setop'>, context: CompareContext): RealSet | null {
  const over = node.parts[1]!;
  if (node.op === 'intersection' && over.kind === 'named' && over.name !== 'R')
    return wholeNumbers(realSet(node.parts[0]!, context), over.name, context);
  const [a, b] = [realSet(node.parts[0]!, context), realSet(over, context)];
  if (a === null || b === null) return null;
  if (node.op === 'union') return union([...a, ...b]);
  return intersection(a, node.op === 'intersection' ? b : complement(b));
}

const MAX_WHOLE = 64;

/** The integers of a bounded set, as points. null when it depends on whether zero is a natural number. */
function wholeNumbers(set: RealSet | null, name: SetName, context: CompareContext): RealSet | null {
  if (set === null || (name !== 'Z' && name !== 'N')) return null;
  const found: Node[] = [];
  for (const { low, high } of set) {
    if (!(Math.abs(low.value) < 1e9) || !(Math.abs(high.value) < 1e9) || high.value - low.value > MAX_WHOLE)
      return null;
    for (let n = Math.floor(low.value) - 1; n <= Math.ceil(high.value) + 1; n++) {
      const at: End = { node: integer(n), value: n, open: false, budget: context.budget };
      const [below, above] = [compareEnds(at, low), compareEnds(at, high)];
      const inside = (below > 0 || (below === 0 && !low.open)) && (above < 0 || (above === 0 && !high.open));
      if (inside) found.push(at.node);
    }
  }
  const zero = name === 'N' && set.some(({ low }) => low.value < 0 || (low.value === 0 && !low.open));
  return zero || found.length > MAX_WHOLE ? null : points(found, context);
}

/** Sorts the pieces and joins those that overlap, or that touch at a point in one of them. */
function union(pieces: readonly Piece[]): RealSet {
  const sorted = pieces
    .filter((piece) => !isEmpty(piece))
    .sort((a, b) => compareEnds(a.low, b.low) || Number(a.low.open) - Number(b.low.open));
  const result: RealSet = [];
  for (const piece of sorted) {
    const last = result.at(-1);
    if (last === undefined || !joins(last.high, piece.low)) {
      result.push({ ...piece });
    } else if (compareEnds(last.high, piece.high) === 0) {
      last.high = { ...last.high, open: last.high.open && piece.high.open };
    } else if (compareEnds(piece.high, last.high) > 0) {
      last.high = piece.high;
    }
  }
  return result;
}

function joins(high: End, low: End): boolean {
  const sign = compareEnds(low, high);
  return sign === 0 ? !(high.open && low.open) : sign < 0;
}

function complement(set: RealSet): RealSet {
  const result: Piece[] = [];
  let low = LOWEST;
  for (const piece of set) {
    result.push({ low, high: { ...piece.low, open: !piece.low.open } });
    low = { ...piece.high, open: !piece.high.open };
  }
  result.push({ low, high: HIGHEST });
  return result.filter(
    (piece) => piece.low.value !== Infinity && piece.high.value !== -Infinity && !isEmpty(piece),
  );
}

function intersection(a: RealSet, b: RealSet): RealSet {
  const pieces = a.flatMap((x) =>
    b.map((y): Piece => ({ low: tighter(x.low, y.low, 1), high: tighter(x.high, y.high, -1) })),
  );
  return union(pieces);
}

function tighter(a: End, b: End, direction: 1 | -1): End {
  const sign = compareEnds(a, b) * direction;
  return sign === 0 ? { ...a, open: a.open || b.open } : sign > 0 ? a : b;
}

/** The solutions of an inequality in one variable: x > 5, 1 <= |z| <= 2, x != 3. */
function ofRelation(node: NodeOf<'relation'>, context: CompareContext): RealSet | null {
  if (node.ops.length === 1 && node.ops[0] === '=') return realSet(node.sides[1]!, context);
  const at = node.sides.findIndex((side) => isNameLike(side));
  if (at < 0) return null;
  let result: RealSet = ALL;
  for (const [i, op] of node.ops.entries()) {
    const nameLeft = i === at;
    if (!nameLeft && i + 1 !== at) return null;
    const bound = ray(nameLeft ? op : flip(op), node.sides[nameLeft ? i + 1 : i]!, context);
    if (bound === null) return null;
    result = intersection(result, bound);
  }
  const name = node.sides[at]!;
  return name.kind === 'fn' && name.name === 'abs' ? ofModulus(result) : result;
}

const FLIPPED: Partial<Record<RelationOp, RelationOp>> = { '<': '>', '>': '<', '<=': '>=', '>=': '<=' };

export const flip = (op: RelationOp): RelationOp => FLIPPED[op] ?? op;

function ray(op: RelationOp, node: Node, context: CompareContext): RealSet | null {
  const at = end(node, op === '<' || op === '>', context);
  if (at === null) return null;
  if (op === '<' || op === '<=') return [{ low: LOWEST, high: at }];
  if (op === '>' || op === '>=') return [{ low: at, high: HIGHEST }];
  if (op === '!=') return complement([{ low: { ...at, open: false }, high: { ...at, open: false } }]);
  return null;
}

/** All x whose modulus lies in the set. */
function ofModulus(set: RealSet): RealSet {
  const zero: End = { node: integer(0), value: 0, open: false, budget: null };
  const positive = intersection(set, [{ low: zero, high: HIGHEST }]);
  const mirror = (end: End): End => ({ ...end, node: negative(end.node), value: -end.value });
  const mirrored = positive.map(({ low, high }): Piece => ({ low: mirror(high), high: mirror(low) }));
  return union([...positive, ...mirrored]);
}

export function equalSets(a: RealSet, b: RealSet, context: CompareContext): boolean {
  const equal = (x: End, y: End): boolean => x.open === y.open && equalScalars(x.node, y.node, context);
  return (
    a.length === b.length && a.every(({ low, high }, i) => equal(low, b[i]!.low) && equal(high, b[i]!.high))
  );
}
