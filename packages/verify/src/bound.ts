/** Names that do not matter: of the variables in a definition, and of constants of integration. */
import {
  type Domain,
  freeSymbols,
  isEquation,
  mapChildren,
  type Node,
  type NodeOf,
  renamedSymbols,
  some,
} from './ast';

/** A definition of `name` for the variables `params`. */
export interface Definition {
  name: string;
  params: string[];
  body: Node;
  domain: Domain | null;
}

/** The name of a function given by `x \mapsto ...` alone. */
export const UNNAMED = '↦';

/** f(x, y) = ... and a_n = ...; null for other nodes. */
export function definitionOf(node: Node): Definition | null {
  if (!isEquation(node)) return null;
  const head = node.sides[0]!;
  if (head.kind !== 'apply' || head.name.startsWith('#')) return null;
  const params = head.args.map((arg) => (arg.kind === 'sym' ? arg.name : null));
  if (!params.every((name) => name !== null) || new Set(params).size < params.length) return null;
  return { name: head.name, params, body: node.sides.at(-1)!, domain: node.domain ?? null };
}

/** Compares two definitions, or one with an equation for the same name; null when they do not decide. */
export function equalDefinitions(
  gold: Node,
  pred: Node,
  equal: (a: Node, b: Node) => boolean,
  equalDomains: (a: Node, b: Node) => boolean,
): boolean | null {
  const [a, b] = [definitionOf(gold), definitionOf(pred)];
  if (a === null || b === null) {
    const definition = a ?? b;
    if (definition?.domain?.usual === false) return false;
    // y = ... for y(x) = ...
    const other = a === null ? gold : pred;
    const sides = isEquation(other) ? other.sides : [];
    const [left, right] = [sides[0], sides.at(-1)];
    if (definition === null || left?.kind !== 'sym' || left.name !== definition.name) return null;
    return a === null ? equal(right!, definition.body) : equal(definition.body, right!);
  }
  if (a.params.length !== b.params.length) return null;
  if (a.name !== b.name && ![a.name, b.name].includes(UNNAMED)) return null;
  const names = parametersAs(a.params, b.params);
  if (a.domain !== null && b.domain !== null) {
    if (!equalDomains(a.domain.set, renamedSymbols(b.domain.set, names))) return false;
  } else if ((a.domain ?? b.domain)?.usual === false) {
    return false;
  }
  return equal(a.body, renamedSymbols(b.body, names));
}

/** Renames `from` to `to` by position; a name of `to` that is something else there becomes a new one. */
function parametersAs(to: readonly string[], from: readonly string[]): Map<string, string> {
  const names = new Map(to.map((name) => [name, `${name}'free`]));
  from.forEach((name, i) => names.set(name, to[i]!));
  return names;
}

const CALL = /^([^()#]+)\(([^()]*)\)$/;

/** Named parts f(t) = ..., g(t) = ... with the variables of `gold` for their own. */
export function withParametersOf(gold: NodeOf<'tuple'>, pred: NodeOf<'tuple'>): NodeOf<'tuple'> {
  if (gold.names === undefined || pred.names?.length !== gold.names.length) return pred;
  const names = [...pred.names];
  const items = pred.items.map((item, i) => {
    const [a, b] = [CALL.exec(gold.names![i]!), CALL.exec(names[i]!)];
    const [to, from] = [a?.[2]!.split(','), b?.[2]!.split(',')];
    if (a?.[1] !== b?.[1] || to === undefined || to.length !== from?.length) return item;
    if (![...to, ...from].every((name) => /^[a-zA-Z]$/.test(name))) return item;
    names[i] = gold.names![i]!;
    return renamedSymbols(item, parametersAs(to, from));
  });
  return { ...pred, items, names };
}

/** `C`, `c_1`, `K`. */
const CONSTANT = /^[CcKk](?:_\d{1,2})?$/;
/** A capital C or one with an index is written for nothing else beside a variable. */
const CERTAIN = /^C(?:_\d{1,2})?$|^[cKk]_\d{1,2}$/;
const VARIABLE = /^(?:[txyzuwsr]|theta|phi)$/;
const WORD = /^(?:c|k|const|constant)$/;

/** `pred` with the constants of `gold`; null if `gold` has none, or if they do not match one to one. */
export function withConstantsOf(gold: Node, pred: Node): Node | null {
  const wanted = constantsOf(gold);
  if (wanted.length === 0 || !isIntegral(gold, wanted)) return null;
  const given = constantsOf(pred);
  if (given.length !== wanted.length) return null;
  const order = (a: string, b: string): number => indexOf(a) - indexOf(b);
  const [from, to] = [given.sort(order), wanted.sort(order)];
  if (to.length > 1 && to.some((name, i) => indexOf(name) !== indexOf(from[i]!))) return null;
  const names = new Map(from.map((name, i) => [name, to[i]!]));
  const rename = (node: Node): Node => {
    const name = names.get(constantName(node) ?? '');
    return name === undefined ? mapChildren(node, rename) : { kind: 'sym', name };
  };
  return rename(pred);
}

const indexOf = (name: string): number => Number(/\d+/.exec(name)?.[0] ?? 0);

/** The letter of a constant, or its word after a plus sign. */
function constantName(node: Node): string | null {
  if (node.kind === 'sym') return CONSTANT.test(node.name) ? node.name : null;
  return node.kind === 'text' && WORD.test(node.value) ? node.value : null;
}

function constantsOf(node: Node): string[] {
  const found = new Set<string>();
  some(node, (inner) => {
    const name = constantName(inner);
    if (name !== null) found.add(name);
    return false;
  });
  return [...found];
}

/**
 * Whether the constants stand beside a variable and no other parameter. A small letter without an index may
 * be anything, so it must be added to the rest.
 */
function isIntegral(node: Node, constants: readonly string[]): boolean {
  const others = [...freeSymbols(node)].filter((name) => !constants.includes(name));
  if (!others.some((name) => VARIABLE.test(name))) return false;
  if (constants.every((name) => CERTAIN.test(name)))
    return !others.some((name) => /^[ABD](?![a-zA-Z])/.test(name));
  if (constants.length > 1 || !others.every((name) => VARIABLE.test(name))) return false;
  const value = node.kind === 'relation' ? node.sides.at(-1)! : node;
  return value.kind === 'add' && value.terms.some((term) => constantName(term) === constants[0]);
}
