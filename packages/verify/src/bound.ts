/** Functions and sequences by definition: the names of their variables do not matter. */
import { type Domain, isEquation, type Node, type NodeOf, renamedSymbols } from './ast';

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
