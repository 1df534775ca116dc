/** Equations and inequalities: equal when the differences of their sides agree up to a factor. */
import { difference, freeSymbols, isEquation, type Node, type NodeOf, type RelationOp } from './ast';
import { isNameLike } from './answer';
import * as C from './complex';
import { numericValue } from './numeric';
import { compare } from './rational';
import { flip } from './realset';
import { sameRatio } from './digits';
import { type CompareContext, precisePoint, samplePoint, spreadOf } from './scalar';

type Relation = NodeOf<'relation'>;

/** An equation that begins with a name: x = 5, f(x) = ..., AB = CD = 3. */
export function isAssignment(node: Node): node is Relation {
  return isEquation(node) && isNameLike(node.sides[0]!);
}

/** Shortens a chain of assignments: the first name equals the last value. */
export function shortened(node: Node): Node {
  if (!isAssignment(node)) return turned(node);
  return { kind: 'relation', sides: [node.sides[0]!, node.sides.at(-1)!], ops: ['='] };
}

/** Turns 5 = x into x = 5. */
function turned(node: Node): Node {
  if (!isEquation(node) || !isNameLike(node.sides.at(-1)!)) return node;
  return { kind: 'relation', sides: [node.sides.at(-1)!, node.sides.at(-2)!], ops: ['='] };
}

export function lastSide(node: Relation): Node {
  return node.sides.at(-1)!;
}

interface Link {
  left: Node;
  op: RelationOp;
  right: Node;
}

function links(node: Relation): Link[] {
  return node.ops.map((op, i) => ({ left: node.sides[i]!, op, right: node.sides[i + 1]! }));
}

export type Equal = (a: Node, b: Node) => boolean;

/** `equal` compares the values of assignments, which may be of any kind. Throws BudgetExceeded. */
export function equalRelations(
  gold: Relation,
  pred: Relation,
  equal: Equal,
  context: CompareContext,
): boolean {
  const [a, b] = [links(gold), links(pred)];
  return matchInAnyOrder(a, b, (one, other) => equalLinks(one, other, equal, context));
}

/** Whether each of `gold` has one of `pred` to itself, in any order. */
export function matchInAnyOrder<T>(
  gold: readonly T[],
  pred: readonly T[],
  equal: (a: T, b: T) => boolean,
): boolean {
  const left = [...pred];
  return (
    gold.length === pred.length &&
    gold.every((item) => {
      const match = left.findIndex((other) => equal(item, other));
      if (match >= 0) left.splice(match, 1);
      return match >= 0;
    })
  );
}

function equalLinks(a: Link, b: Link, equal: Equal, context: CompareContext): boolean {
  const forward = a.op === b.op;
  const backward = a.op === flip(b.op);
  if (!forward && !backward) return false;
  if (forward && equal(a.left, b.left) && equal(a.right, b.right)) return true;
  if (backward && equal(a.left, b.right) && equal(a.right, b.left)) return true;
  const ratio = constantRatio(difference(a.left, a.right), difference(b.left, b.right), context);
  if (ratio === null) return false;
  if (a.op === '=' || a.op === '!=') return true;
  return ratio > 0 ? forward : backward;
}

/** Joins `x > 3` and `x < 8` into `3 < x < 8`; null unless they bound one name on both sides. */
export function between(first: Node, second: Node): Relation | null {
  const [a, b] = [bound(first), bound(second)];
  if (a === null || b === null || a.name !== b.name || a.op[0] === b.op[0]) return null;
  const [low, high] = a.op.startsWith('>') ? [a, b] : [b, a];
  const middle: Node = { kind: 'sym', name: low.name };
  return { kind: 'relation', sides: [low.value, middle, high.value], ops: [flip(low.op), high.op] };
}

/** `x > 3, x < 8`: between, where their union would be everything. */
export function betweenNumbers(first: Node, second: Node): Relation | null {
  const both = between(first, second);
  const [low, , high] = both?.sides ?? [];
  const ordered = low?.kind === 'num' && high?.kind === 'num' && compare(low.value, high.value) < 0;
  return ordered ? both : null;
}

/** The interval that `a < x <= b` or `x > a` describes; null for other relations. */
export function intervalOf({ sides, ops }: Relation): NodeOf<'tuple'> | null {
  const falling = ops.every((op) => op.startsWith('>'));
  if (!falling && !ops.every((op) => op.startsWith('<'))) return null;
  const [ends, signs] = falling ? [sides.toReversed(), ops.map(flip).reverse()] : [sides, ops];
  const middle = ops.length === 2 ? 1 : ends.findIndex((side) => side.kind === 'sym');
  const name = ends[middle];
  if (ops.length > 2 || name?.kind !== 'sym') return null;
  const infinity: Node = { kind: 'const', name: 'inf' };
  const items = [ends[middle - 1] ?? { kind: 'neg' as const, value: infinity }, ends[middle + 1] ?? infinity];
  if (items.some((item) => freeSymbols(item).has(name.name))) return null;
  return {
    kind: 'tuple',
    open: signs[middle - 1] === '<=' ? '[' : '(',
    close: signs[middle] === '<=' ? ']' : ')',
    items,
  };
}

/** An inequality with a name on one side, turned so that the name comes first. */
function bound(node: Node): { name: string; op: RelationOp; value: Node } | null {
  if (node.kind !== 'relation' || node.ops.length !== 1 || !/^[<>]/.test(node.ops[0]!)) return null;
  const [left, right] = node.sides as [Node, Node];
  if (left.kind === 'sym') return { name: left.name, op: node.ops[0]!, value: right };
  return right.kind === 'sym' ? { name: right.name, op: flip(node.ops[0]!), value: left } : null;
}

const POINTS = 6;
const TOLERANCE = 1e-9;

/** a / b if it is the same real number at every sampled point; null if it is not, or is zero. */
function constantRatio(a: Node, b: Node, context: CompareContext): number | null {
  const names = new Set([...freeSymbols(a), ...freeSymbols(b)]);
  if (names.size === 0) return null;
  const spread = spreadOf(a, b);
  let ratio: number | null = null;
  const used: number[] = [];
  for (let k = 0; k < 2 * POINTS && used.length < POINTS; k++) {
    const at = { budget: context.budget, point: samplePoint(names, k, spread) };
    const [x, y] = [numericValue(a, at), numericValue(b, at)];
    if (!C.isFinite(x) || !C.isFinite(y) || C.modulus(x) < 1e-9 || C.modulus(y) < 1e-9) continue;
    const here = C.divide(x, y);
    if (Math.abs(here.im) > TOLERANCE * Math.abs(here.re)) return null;
    if (ratio !== null && Math.abs(here.re - ratio) > TOLERANCE * Math.abs(ratio)) return null;
    ratio = here.re;
    used.push(k);
  }
  if (used.length < 3) return null;
  const points = used.map((k) => precisePoint(names, k, spread));
  return sameRatio(a, b, points, context.budget) === false ? null : ratio;
}
