/** Constants of integration: the letter of an arbitrary constant does not matter, that there is one does. */
import { freeSymbols, mapChildren, type Node, some } from './ast';

/** `C`, `c_1`, `K`. */
const CONSTANT = /^[CcKk](?:_\d{1,2})?$/;
/** A capital C or one with an index is written for nothing else beside a variable. */
const CERTAIN = /^C(?:_\d{1,2})?$|^[cKk]_\d{1,2}$/;
const VARIABLE = /^(?:[txyzuwsr]|theta|phi)$/;
const WORD = /^(?:c|k|const|constant)$/;

/**
 * `pred` with its constants named as those of `gold`; null when `gold` has no constant of integration, or
 * when the constants cannot be matched one to one.
 */
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
