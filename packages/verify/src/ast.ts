/** The tree of a parsed answer: numbers and terms, and the structures that hold them. */
import type { Rational } from './rational';

export type Constant = 'pi' | 'e' | 'i' | 'inf';

export type RelationOp = '=' | '!=' | '<' | '<=' | '>' | '>=' | '~';

export type SetName = 'R' | 'Z' | 'N' | 'Q' | 'C' | 'P';

export type Node =
  | { kind: 'num'; value: Rational; /** Written with a decimal point. */ decimal: boolean }
  | { kind: 'const'; name: Constant }
  | { kind: 'sym'; name: string }
  /** Words: lower case, letters and digits only. */
  | {
      kind: 'text';
      value: string;
      /** The words as written. */ phrase?: string;
    }
  | { kind: 'add'; terms: Node[] }
  | { kind: 'mul'; factors: Node[]; /** The letters, when written side by side like a word. */ run?: string }
  | { kind: 'neg'; value: Node }
  /** `clock`: minutes since midnight, for `h:mm`, which may be a time of day. */
  | { kind: 'div'; top: Node; bottom: Node; clock?: number }
  /** A time of day with a.m. or p.m. */
  | { kind: 'time'; minutes: number }
  | { kind: 'pow'; base: Node; exponent: Node }
  /** A function this verifier can evaluate. */
  | { kind: 'fn'; name: string; args: Node[] }
  /** An unknown function: f(x), a_n, F_{n-1}. Equal arguments give equal values. */
  | { kind: 'apply'; name: string; args: Node[] }
  | { kind: 'base'; digits: string; base: number; inWords?: true }
  | { kind: 'percent'; value: Node }
  | { kind: 'degree'; value: Node }
  /** ± (or ∓ when `flipped`); all of them in an answer take the same sign. */
  | { kind: 'pm'; value: Node; flipped: boolean }
  | { kind: 'bigop'; op: 'sum' | 'prod'; variable: string; from: Node; to: Node; body: Node }
  /** A list without brackets or in braces; order does not matter. */
  | { kind: 'set'; items: Node[] }
  /**
   * Two items may be an interval. `names`: names of the items, in order; `written`: the position of each in
   * the answer.
   */
  | { kind: 'tuple'; open: '(' | '['; close: ')' | ']'; items: Node[]; names?: string[]; written?: number[] }
  | { kind: 'setop'; op: 'union' | 'intersection' | 'difference'; parts: Node[] }
  | { kind: 'named'; name: SetName }
  | { kind: 'empty' }
  | { kind: 'matrix'; rows: Node[][] }
  /** a op b op c: one more side than ops. */
  | {
      kind: 'relation';
      sides: Node[];
      ops: RelationOp[];
      /** The domain of a definition's variables. */ domain?: Domain;
    };

export interface Domain {
  /** A set of values, or an inequality. */
  set: Node;
  /** What is taken for granted for such a variable. */
  usual: boolean;
}

export type NodeOf<K extends Node['kind']> = Extract<Node, { kind: K }>;

export const num = (value: Rational, decimal = false): Node => ({ kind: 'num', value, decimal });
export const integer = (value: number | bigint): Node => num({ n: BigInt(value), d: 1n });
export const negated = (value: Node): Node => ({ kind: 'neg', value });
export const difference = (a: Node, b: Node): Node => ({ kind: 'add', terms: [a, negated(b)] });
export const fn = (name: string, ...args: Node[]): Node => ({ kind: 'fn', name, args });

/** A copy of `node` with `change` applied to each child. */
export function mapChildren(node: Node, change: (child: Node) => Node): Node {
  switch (node.kind) {
    case 'add':
      return { ...node, terms: node.terms.map(change) };
    case 'mul':
      return { ...node, factors: node.factors.map(change) };
    case 'neg':
    case 'percent':
    case 'degree':
    case 'pm':
      return { ...node, value: change(node.value) };
    case 'div':
      return { ...node, top: change(node.top), bottom: change(node.bottom) };
    case 'pow':
      return { ...node, base: change(node.base), exponent: change(node.exponent) };
    case 'fn':
    case 'apply':
      return { ...node, args: node.args.map(change) };
    case 'bigop':
      return { ...node, from: change(node.from), to: change(node.to), body: change(node.body) };
    case 'set':
    case 'tuple':
      return { ...node, items: node.items.map(change) };
    case 'setop':
      return { ...node, parts: node.parts.map(change) };
    case 'matrix':
      return { ...node, rows: node.rows.map((row) => row.map(change)) };
    case 'relation':
      return { ...node, sides: node.sides.map(change) };
    default:
      return node;
  }
}

/** The child nodes of `node`. */
function children(node: Node): Node[] {
  const found: Node[] = [];
  mapChildren(node, (child) => {
    found.push(child);
    return child;
  });
  return found;
}

export function some(node: Node, test: (node: Node) => boolean): boolean {
  return test(node) || children(node).some((child) => some(child, test));
}

/** Names of the free variables, in order of first appearance. */
export function freeSymbols(node: Node, found: Set<string> = new Set()): Set<string> {
  if (node.kind === 'sym') found.add(node.name);
  if (node.kind === 'bigop') {
    const inner = freeSymbols(node.body);
    inner.delete(node.variable);
    for (const name of [...freeSymbols(node.from), ...freeSymbols(node.to), ...inner]) found.add(name);
    return found;
  }
  for (const child of children(node)) freeSymbols(child, found);
  return found;
}

/** `node` with its free variables renamed at once; the index of a sum gives way to a new name. */
export function renamedSymbols(node: Node, names: ReadonlyMap<string, string>): Node {
  if (node.kind === 'sym') return { kind: 'sym', name: names.get(node.name) ?? node.name };
  if (node.kind !== 'bigop') return mapChildren(node, (child) => renamedSymbols(child, names));
  const taken = [...names.values()].includes(node.variable);
  const variable = taken ? `${node.variable}'bound` : node.variable;
  return {
    ...node,
    variable,
    from: renamedSymbols(node.from, names),
    to: renamedSymbols(node.to, names),
    body: renamedSymbols(node.body, new Map(names).set(node.variable, variable)),
  };
}

/** An equation or a chain of them. */
export function isEquation(node: Node): node is NodeOf<'relation'> {
  return node.kind === 'relation' && node.ops.every((op) => op === '=');
}

/** Structures are compared piece by piece; everything else is a scalar. */
export function isStructure(node: Node): boolean {
  return ['set', 'tuple', 'setop', 'named', 'empty', 'matrix', 'relation'].includes(node.kind);
}
