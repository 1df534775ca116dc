/**
 * Named parts, `y = -8, x = 5`, become a tuple sorted by name that keeps the names; points, `P(2,3)`, become
 * equations, `P = (2,3)`.
 */
import { isEquation, type Node, type NodeOf } from './ast';

/** Turns a list or tuple into one of named parts if each part has its own name; else returns it unchanged. */
export function withNames(node: Node): Node {
  if (node.kind === 'relation') return ofTuple(node);
  if (node.kind === 'tuple') return named(node.items) ?? { ...node, items: node.items.map(withNames) };
  if (node.kind !== 'set') return node;
  return named(node.items) ?? repeated(node.items) ?? { ...node, items: node.items.map(withNames) };
}

/** Handles (y, x) = (-8, 5). */
function ofTuple(node: NodeOf<'relation'>): Node {
  const [left, right] = [node.sides[0]!, node.sides.at(-1)!];
  if (!isEquation(node) || left.kind !== 'tuple' || right.kind !== 'tuple') return node;
  if (left.items.length !== right.items.length) return node;
  const names = left.items.map(nameOf);
  return names.every((name) => name !== null) ? (sorted(names, right.items) ?? node) : node;
}

function named(items: readonly Node[]): Node | null {
  if (items.length < 2) return null;
  const parts = items.map(partOf);
  if (!parts.every((part) => part !== null)) return null;
  return sorted(
    parts.map(({ name }) => name),
    parts.map(({ value }) => value),
  );
}

/** Several solutions in a row: x=1, y=2, x=3, y=4. */
function repeated(items: readonly Node[]): Node | null {
  const names = items.map((item) => partOf(item)?.name ?? null);
  const length = names.indexOf(names[0] ?? null, 1);
  if (names[0] === null || length < 2 || items.length % length !== 0) return null;
  const solutions: Node[] = [];
  for (let at = 0; at < items.length; at += length) {
    const solution = named(items.slice(at, at + length));
    const same = names.slice(at, at + length).every((name) => names.slice(0, length).includes(name));
    if (solution === null || !same) return null;
    solutions.push(solution);
  }
  return { kind: 'set', items: solutions };
}

function partOf(node: Node): { name: string; value: Node } | null {
  if (!isEquation(node)) return null;
  const [first, last] = [node.sides[0]!, node.sides.at(-1)!].map((side) =>
    side.kind === 'num' ? null : nameOf(side),
  ) as [string | null, string | null];
  if (first !== null) return { name: first, value: node.sides.at(-1)! };
  // 5 = x
  return last === null ? null : { name: last, value: node.sides.at(-2)! };
}

/** null when two parts have the same name. */
function sorted(names: readonly string[], values: readonly Node[]): Node | null {
  if (new Set(names).size < names.length) return null;
  const parts = names.map((name, place) => ({ name, value: values[place]!, place }));
  parts.sort((a, b) => byName(a.name, b.name));
  return {
    kind: 'tuple',
    open: '(',
    close: ')',
    items: parts.map(({ value }) => value),
    names: parts.map(({ name }) => name),
    ...(!areNeighbours(parts.map(({ name }) => name)) && { written: parts.map(({ place }) => place) }),
  };
}

/** x, y or a, b, c or x_1, x_2: names with an obvious order. */
function areNeighbours(names: readonly string[]): boolean {
  const letters = names.map((name) => name.replace(/_\d+$/, ''));
  if (new Set(letters).size === 1) return true;
  return letters.every((letter, i) => {
    const before = letters[i - 1];
    return letter.length === 1 && (before === undefined || letter.charCodeAt(0) - before.charCodeAt(0) === 1);
  });
}

/** Orders names with their numbers compared as numbers: x_2 before x_10. */
function byName(a: string, b: string): number {
  const pieces = (name: string): string[] => name.match(/\d+|\D/g) ?? [];
  const [x, y] = [pieces(a), pieces(b)];
  for (let i = 0; i < Math.min(x.length, y.length); i++) {
    const [p, q] = [x[i]!, y[i]!];
    if (p === q) continue;
    const numbers = /^\d/.test(p) && /^\d/.test(q);
    return numbers ? Number(p) - Number(q) : p < q ? -1 : 1;
  }
  return x.length - y.length;
}

/** The name as written, or null if `node` is not a name. */
function nameOf(node: Node): string | null {
  switch (node.kind) {
    case 'sym':
      return node.name;
    case 'text':
      return node.value;
    case 'const':
      return node.name === 'e' || node.name === 'i' ? node.name : null;
    case 'num':
      return node.decimal ? null : `${node.value.n}`;
    case 'mul': {
      const names = node.factors.map((factor) => (factor.kind === 'num' ? null : nameOf(factor)));
      return names.every((name) => name !== null) ? names.join('') : null;
    }
    case 'apply': {
      const args = node.args.map(nameOf);
      return args.every((arg) => arg !== null) ? `${node.name}(${args.join(',')})` : null;
    }
    default:
      return null;
  }
}

/** A capital letter, with a prime or an index. Small letters are functions: f(2,3) is a value. */
const POINT_NAME = /^[A-Z](?:'|_[A-Za-z0-9]{1,4})*$/;

/** An answer that is a point or a list of points gets equations for them; any other is returned unchanged. */
export function withPoints(node: Node): Node {
  if (node.kind === 'set') return { ...node, items: node.items.map((item) => pointOf(item) ?? item) };
  return pointOf(node) ?? node;
}

function pointOf(node: Node): NodeOf<'relation'> | null {
  if (node.kind === 'apply') {
    return node.args.length < 2
      ? null
      : point(node.name, { kind: 'tuple', open: '(', close: ')', items: node.args });
  }
  // P: (2,3)
  if (node.kind === 'div') return node.top.kind === 'sym' ? point(node.top.name, node.bottom) : null;
  if (node.kind !== 'mul' || node.factors.length !== 2) return null;
  const [name, place] = node.factors as [Node, Node];
  return name.kind === 'sym' ? point(name.name, place) : null;
}

function point(name: string, place: Node): NodeOf<'relation'> | null {
  if (!POINT_NAME.test(name) || place.kind !== 'tuple' || place.open !== '(' || place.close !== ')')
    return null;
  return { kind: 'relation', sides: [{ kind: 'sym', name }, place], ops: ['='] };
}
