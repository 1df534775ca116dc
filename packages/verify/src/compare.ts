/** Whether two answers are the same: math_verify's rules, with exact comparison. */
import type { Answer } from './answer';
import {
  difference,
  freeSymbols,
  isEquation,
  isStructure,
  type Node,
  type NodeOf,
  renamedSymbols,
} from './ast';
import { words } from './atoms';
import { plainDigits } from './bases';
import { equalDefinitions, withConstantsOf, withParametersOf } from './bound';
import { exactValue } from './exact';
import { hasMatrix, matrixCells } from './matrices';
import { isInteger } from './rational';
import { equalSets, readPair, realSet } from './realset';
import { equalRelations, intervalOf, isAssignment, lastSide, matchInAnyOrder, shortened } from './relations';
import { type CompareContext, equalScalars } from './scalar';

/** Not symmetric: the reference decides which form is wanted. Throws BudgetExceeded. */
export function equalAnswers(gold: Answer, pred: Answer, context: CompareContext): boolean {
  if (gold.key !== '' && gold.key === pred.key) return true;
  return equalChoices(gold, pred, context) ?? equalValues(gold, pred, context);
}

/** Compares multiple-choice letters; null when they do not decide. */
function equalChoices(gold: Answer, pred: Answer, context: CompareContext): boolean | null {
  const [a, b] = [gold.choice, pred.choice];
  const values = (x: Answer, y: Answer): boolean => equalAnswers(x, y, context);
  if (a !== null && b !== null) {
    const same = a.letter === b.letter;
    if (a.value === null && b.value === null) return same || null;
    return a.value === null || b.value === null ? same : same && values(a.value, b.value);
  }
  if (a !== null) return a.value === null ? null : values(a.value, pred);
  return b === null || b.value === null ? null : values(gold, b.value);
}

function equalValues(gold: Answer, pred: Answer, context: CompareContext): boolean {
  if (gold.words !== null && gold.words === pred.words && (gold.spelled || pred.spelled)) return true;
  if (gold.node === null || pred.node === null) return false;
  if (isWord(gold) && isWord(pred)) return false;
  const digits = equalDigits(gold, pred);
  if (digits !== null) return digits;
  if (equalNodes(gold.node, pred.node, context)) return true;
  const renamedConstants = withConstantsOf(gold.node, pred.node);
  if (renamedConstants !== null && equalNodes(gold.node, renamedConstants, context)) return true;
  // When the reference has no variable, the m of `10 m` is a unit.
  if (pred.withoutUnit !== null && freeSymbols(gold.node).size === 0)
    return equalNodes(gold.node, pred.withoutUnit, context);
  if (gold.withoutUnit !== null && freeSymbols(pred.node).size === 0)
    return equalNodes(gold.withoutUnit, pred.node, context);
  return false;
}

/** Digits that include letters against a number in a base: B3 and B3_16. */
function equalDigits(gold: Answer, pred: Answer): boolean | null {
  const [a, b] = [gold.node!, pred.node!];
  if ((a.kind === 'base') === (b.kind === 'base')) return null;
  const [based, other] = a.kind === 'base' ? [a, pred] : [b as NodeOf<'base'>, gold];
  if (!/[A-Z]/.test(based.digits) || other.words === null) return null;
  return plainDigits(other.words.replace(/\s/g, '')) === plainDigits(based.digits);
}

/** A word of four letters or more is not a product of variables: `East` is not `Seat`. */
function isWord({ node }: Answer): boolean {
  return node?.kind === 'text' || (node?.kind === 'mul' && node.run !== undefined && node.run.length > 3);
}

function equalNodes(goldNode: Node, predNode: Node, context: CompareContext): boolean {
  context.budget.spend(5);
  const defined = equalDefinitions(
    goldNode,
    predNode,
    (a, b) => equalNodes(a, b, context),
    (a, b) => sameRealSet(a, b, context) || equalNodes(a, b, context),
  );
  if (defined !== null) return defined;
  let gold = shortened(goldNode);
  let pred = shortened(context.strict ? predNode : renamed(predNode, goldNode));
  // The reference decides: an equation given for a plain value counts as its last side.
  if (isEquation(pred) && !isEquation(gold)) pred = lastSide(pred);
  else if (isAssignment(gold) && !isEquation(pred)) gold = lastSide(gold);
  if (isResidue(gold) || isResidue(pred)) return equalResidues(gold, pred, context);
  if (gold.kind === 'relation' && isSetLike(pred)) return describes(gold, pred, context);
  if (pred.kind === 'relation' && isSetLike(gold)) {
    return context.allowSetRelationComp && describes(pred, gold, context);
  }
  if (gold.kind === 'relation' && pred.kind === 'relation') {
    return equalRelations(gold, pred, (a, b) => equalNodes(a, b, context), context);
  }
  if (hasMatrix(gold) || hasMatrix(pred)) return equalMatrices(gold, pred, context);
  if (isStructure(gold) || isStructure(pred)) return equalStructures(gold, pred, context);
  return equalLeaves(gold, pred, context);
}

function isResidue(node: Node): node is NodeOf<'fn'> {
  return node.kind === 'fn' && node.name === 'residue';
}

/** Congruent numbers are equal for equal moduli; against a plain number, the number as written counts. */
function equalResidues(gold: Node, pred: Node, context: CompareContext): boolean {
  const [value, other] = [gold, pred].map((node) => (isResidue(node) ? node.args[0]! : node)) as [Node, Node];
  if (!isResidue(gold) || !isResidue(pred)) return equalNodes(value, other, context);
  const [modulus, second] = [gold.args[1]!, pred.args[1]!];
  if (!equalNodes(modulus, second, context)) return false;
  const quotient = exactValue({ kind: 'div', top: difference(value, other), bottom: modulus }, context);
  return quotient === null ? equalNodes(value, other, context) : isInteger(quotient);
}

function isSetLike(node: Node): boolean {
  return isSetTerm(node) || (node.kind === 'tuple' && node.items.length === 2 && node.names === undefined);
}

const isSetTerm = ({ kind }: Node): boolean => kind === 'setop' || kind === 'named' || kind === 'empty';

function sameRealSet(gold: Node, pred: Node, context: CompareContext): boolean {
  const [a, b] = [realSet(gold, context), realSet(pred, context)];
  return a !== null && b !== null && equalSets(a, b, context);
}

/** Whether the inequality describes the set; ends that cannot be ordered are compared as written. */
function describes(relation: NodeOf<'relation'>, set: Node, context: CompareContext): boolean {
  if (sameRealSet(relation, set, context)) return true;
  const interval = intervalOf(relation);
  return interval !== null && set.kind === 'tuple' && equalTuples(interval, set, context);
}

/** Scalars and words. A word equals its letters, ignoring case. */
function equalLeaves(gold: Node, pred: Node, context: CompareContext): boolean {
  if (gold.kind === 'text' || pred.kind === 'text') {
    const [a, b] = [asWord(gold), asWord(pred)];
    return a !== null && a === b;
  }
  if (gold.kind === 'time' || pred.kind === 'time') {
    const [a, b] = [minutesOf(gold), minutesOf(pred)];
    return a !== null && a === b;
  }
  return equalScalars(gold, pred, context);
}

/** Minutes since midnight; without a.m. or p.m. a time is on the 24-hour clock. */
function minutesOf(node: Node): number | null {
  if (node.kind === 'time') return node.minutes;
  return node.kind === 'div' ? (node.clock ?? null) : null;
}

function asWord(node: Node): string | null {
  if (node.kind === 'text') return node.value;
  if (node.kind === 'sym' || node.kind === 'const') return words(node.name);
  if (node.kind === 'mul' && node.run !== undefined) return node.run.toLowerCase();
  if (node.kind === 'num' && node.value.d === 1n) return node.value.n.toString();
  return null;
}

function equalMatrices(gold: Node, pred: Node, context: CompareContext): boolean {
  const [a, b] = [matrixCells(gold, context.budget), matrixCells(pred, context.budget)];
  if (a === null && b === null && gold.kind === 'set' && pred.kind === 'set')
    return equalItems(gold.items, pred.items, context);
  if (a === null || b === null || a.length !== b.length || a[0]!.length !== b[0]!.length) return false;
  return a.every((row, i) => row.every((cell, j) => equalNodes(cell, b[i]![j]!, context)));
}

function equalStructures(gold: Node, pred: Node, context: CompareContext): boolean {
  if (gold.kind === 'named' && pred.kind === 'named') return gold.name === pred.name;
  if (gold.kind === 'tuple' && pred.kind === 'tuple') return equalTuples(gold, pred, context);
  if (isSetTerm(gold) || isSetTerm(pred))
    return sameRealSet(gold, pred, context) || sameParts(gold, pred, context);
  if (gold.kind === 'tuple' && pred.kind === 'set') {
    const items = itemsOf(pred, context);
    return (
      (isOrdered(gold, context) && inOrder(gold.items, items, context)) ||
      inOrder(asWritten(gold), items, context) ||
      equalItems([gold], items, context)
    );
  }
  if (pred.kind === 'tuple' && gold.kind === 'set') {
    const items = itemsOf(gold, context);
    return (
      (isOrdered(pred, context) && equalItems(items, pred.items, context)) ||
      equalItems(items, [pred], context)
    );
  }
  if (gold.kind !== 'set' && pred.kind !== 'set') return false;
  return equalItems(itemsOf(gold, context), itemsOf(pred, context), context);
}

/** Named parts in the order they were written, which a bare list may follow too. */
function asWritten({ items, written }: NodeOf<'tuple'>): Node[] {
  if (written === undefined) return [];
  return items.map((_, place) => items[written.indexOf(place)]!);
}

/** Unions whose parts cannot be ordered are compared part by part. */
function sameParts(gold: Node, pred: Node, context: CompareContext): boolean {
  if (gold.kind !== 'setop' || pred.kind !== 'setop' || gold.op !== pred.op) return false;
  const [a, b] = [gold, pred].map((node) => flattened(node, node.op)) as [Node[], Node[]];
  return gold.op === 'difference' ? inOrder(a, b, context) : equalItems(a, b, context);
}

function flattened(node: Node, op: string): Node[] {
  return node.kind === 'setop' && node.op === op ? node.parts.flatMap((part) => flattened(part, op)) : [node];
}

/** A pair in round brackets may also be a list of two; [a, b) may not. */
function isOrdered(node: NodeOf<'tuple'>, context: CompareContext): boolean {
  if (node.items.length !== 2 || (node.open === '(' && node.close === ')')) return true;
  return readPair(node, context).reading === 'pair';
}

function equalTuples(gold: NodeOf<'tuple'>, given: NodeOf<'tuple'>, context: CompareContext): boolean {
  if (gold.items.length !== given.items.length) return false;
  const pred = withParametersOf(gold, given);
  const [names, others] = [gold.names, pred.names];
  if (names !== undefined && others !== undefined && context.strict && names.join() !== others.join())
    return false;
  const round = [gold, pred].every((node) => node.open === '(' && node.close === ')');
  if (round || gold.items.length > 2) return inOrder(gold.items, pred.items, context);
  const [a, b] = [readPair(gold, context), readPair(pred, context)];
  if (a.reading !== b.reading) return false;
  if (a.reading === 'interval' && b.reading === 'interval') {
    // At infinity the kind of bracket does not matter.
    if (a.piece.low.open !== b.piece.low.open || a.piece.high.open !== b.piece.high.open) return false;
  } else if (a.reading === 'symbolic' && (gold.open !== pred.open || gold.close !== pred.close)) {
    return false;
  }
  return a.reading === 'empty' || inOrder(gold.items, pred.items, context);
}

/** The items of a list or set, each once; anything else is a set of one. */
function itemsOf(node: Node, context: CompareContext): Node[] {
  if (node.kind !== 'set') return [node];
  if (context.countRepeats) return node.items;
  const items: Node[] = [];
  for (const item of node.items) {
    if (!items.some((known) => equalNodes(known, item, context))) items.push(item);
  }
  return items;
}

function inOrder(gold: readonly Node[], pred: readonly Node[], context: CompareContext): boolean {
  return gold.length === pred.length && gold.every((item, i) => equalNodes(item, pred[i]!, context));
}

/** Whether the items match one to one, in any order. */
function equalItems(gold: readonly Node[], pred: readonly Node[], context: CompareContext): boolean {
  return matchInAnyOrder(gold, pred, (a, b) => equalNodes(a, b, context));
}

/** `pred` with its variables named as `gold` names them, by position. */
function renamed(pred: Node, gold: Node): Node {
  const [from, to] = [[...freeSymbols(pred)], [...freeSymbols(gold)]];
  if (from.length !== to.length) return pred;
  return renamedSymbols(pred, new Map(from.map((name, i) => [name, to[i]!])));
}
