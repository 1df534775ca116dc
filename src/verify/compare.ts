/** Whether two answers are the same: math_verify's rules for what may stand for what, over exact comparison. */
import type { Answer } from './answer';
import { freeSymbols, isStructure, mapChildren, type Node, type NodeOf } from './ast';
import { words } from './atoms';
import { hasMatrix, matrixCells } from './matrices';
import { equalSets, readPair, realSet } from './realset';
import { equalRelations, isAssignment, isEquation, lastSide, shortened } from './relations';
import { type CompareContext, equalScalars } from './scalar';

/** Not symmetric: the reference says which form is wanted. Throws BudgetExceeded. */
export function equalAnswers(gold: Answer, pred: Answer, context: CompareContext): boolean {
  if (gold.key !== '' && gold.key === pred.key) return true;
  if (gold.words !== null && gold.words === pred.words && (gold.spelled || pred.spelled)) return true;
  if (gold.node === null || pred.node === null) return false;
  if (isWord(gold) && isWord(pred)) return false;
  if (equalNodes(gold.node, pred.node, context)) return true;
  // 10 m is ten where the other side has no variable.
  if (pred.withoutUnit !== null && freeSymbols(gold.node).size === 0) return equalNodes(gold.node, pred.withoutUnit, context);
  if (gold.withoutUnit !== null && freeSymbols(pred.node).size === 0) return equalNodes(gold.withoutUnit, pred.node, context);
  return false;
}

/** One word of four letters or more is no product of variables: `East` is not `Seat`. */
function isWord({ node }: Answer): boolean {
  return node?.kind === 'text' || (node?.kind === 'mul' && node.run !== undefined && node.run.length > 3);
}

function equalNodes(goldNode: Node, predNode: Node, context: CompareContext): boolean {
  context.budget.spend(5);
  let gold = shortened(goldNode);
  let pred = shortened(context.strict ? predNode : renamed(predNode, goldNode));
  // The reference decides: an equation given for a plain value counts as its last side.
  if (isEquation(pred) && !isEquation(gold)) pred = lastSide(pred);
  else if (isAssignment(gold) && !isEquation(pred)) gold = lastSide(gold);
  if (gold.kind === 'relation' && isSetLike(pred)) return sameRealSet(gold, pred, context);
  if (pred.kind === 'relation' && isSetLike(gold)) {
    return context.allowSetRelationComp && sameRealSet(gold, pred, context);
  }
  if (gold.kind === 'relation' && pred.kind === 'relation') {
    return equalRelations(gold, pred, (a, b) => equalNodes(a, b, context), context);
  }
  if (hasMatrix(gold) || hasMatrix(pred)) return equalMatrices(gold, pred, context);
  if (isStructure(gold) || isStructure(pred)) return equalStructures(gold, pred, context);
  return equalLeaves(gold, pred, context);
}

function isSetLike(node: Node): boolean {
  return node.kind === 'setop' || node.kind === 'named' || node.kind === 'empty' || (node.kind === 'tuple' && node.items.length === 2);
}

function sameRealSet(gold: Node, pred: Node, context: CompareContext): boolean {
  const [a, b] = [realSet(gold, context), realSet(pred, context)];
  return a !== null && b !== null && equalSets(a, b, context);
}

/** Scalars and words. A word equals the letters it is made of, in any case. */
function equalLeaves(gold: Node, pred: Node, context: CompareContext): boolean {
  if (gold.kind === 'text' || pred.kind === 'text') {
    const [a, b] = [asWord(gold), asWord(pred)];
    return a !== null && a === b;
  }
  return equalScalars(gold, pred, context);
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
  if (a === null || b === null || a.length !== b.length || a[0]!.length !== b[0]!.length) {
    return a === null && b === null && gold.kind === 'set' && pred.kind === 'set' && equalItems(gold.items, pred.items, context);
  }
  return a.every((row, i) => row.every((cell, j) => equalNodes(cell, b[i]![j]!, context)));
}

function equalStructures(gold: Node, pred: Node, context: CompareContext): boolean {
  if (gold.kind === 'named' && pred.kind === 'named') return gold.name === pred.name;
  if (gold.kind === 'tuple' && pred.kind === 'tuple') return equalTuples(gold, pred, context);
  if (gold.kind === 'setop' || pred.kind === 'setop' || gold.kind === 'named' || pred.kind === 'named' || gold.kind === 'empty' || pred.kind === 'empty') {
    return sameRealSet(gold, pred, context) || sameParts(gold, pred, context);
  }
  if (gold.kind === 'tuple' && pred.kind === 'set') {
    const items = itemsOf(pred, context);
    return (isOrdered(gold, context) && inOrder(gold.items, items, context)) || equalItems([gold], items, context);
  }
  if (pred.kind === 'tuple' && gold.kind === 'set') {
    const items = itemsOf(gold, context);
    return (isOrdered(pred, context) && equalItems(items, pred.items, context)) || equalItems(items, [pred], context);
  }
  if (gold.kind !== 'set' && pred.kind !== 'set') return false;
  return equalItems(itemsOf(gold, context), itemsOf(pred, context), context);
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

/** A pair in round brackets is also what a list of two is; [a, b) is not. */
function isOrdered(node: NodeOf<'tuple'>, context: CompareContext): boolean {
  if (node.items.length !== 2 || (node.open === '(' && node.close === ')')) return true;
  return readPair(node, context).reading === 'pair';
}

function equalTuples(gold: NodeOf<'tuple'>, pred: NodeOf<'tuple'>, context: CompareContext): boolean {
  if (gold.items.length !== pred.items.length) return false;
  const round = [gold, pred].every((node) => node.open === '(' && node.close === ')');
  if (round || gold.items.length > 2) return inOrder(gold.items, pred.items, context);
  const [a, b] = [readPair(gold, context), readPair(pred, context)];
  if (a.reading !== b.reading) return false;
  if (a.reading === 'interval' && b.reading === 'interval') {
    // At an infinity the bracket says nothing.
    if (a.piece.low.open !== b.piece.low.open || a.piece.high.open !== b.piece.high.open) return false;
  } else if (a.reading === 'symbolic' && (gold.open !== pred.open || gold.close !== pred.close)) {
    return false;
  }
  return a.reading === 'empty' || inOrder(gold.items, pred.items, context);
}

/** The items of a list or set, each once; anything else is a set of one. */
function itemsOf(node: Node, context: CompareContext): Node[] {
  if (node.kind !== 'set') return [node];
  const items: Node[] = [];
  for (const item of node.items) {
    if (!items.some((known) => equalNodes(known, item, context))) items.push(item);
  }
  return items;
}

function inOrder(gold: readonly Node[], pred: readonly Node[], context: CompareContext): boolean {
  return gold.length === pred.length && gold.every((item, i) => equalNodes(item, pred[i]!, context));
}

/** A one-to-one match in any order. */
function equalItems(gold: readonly Node[], pred: readonly Node[], context: CompareContext): boolean {
  if (gold.length !== pred.length) return false;
  const left = [...pred];
  return gold.every((item) => {
    const match = left.findIndex((other) => equalNodes(item, other, context));
    if (match >= 0) left.splice(match, 1);
    return match >= 0;
  });
}

/** `pred` with its variables named as `gold` names them, by position. */
function renamed(pred: Node, gold: Node): Node {
  const [from, to] = [[...freeSymbols(pred)], [...freeSymbols(gold)]];
  if (from.length !== to.length) return pred;
  const names = new Map(from.map((name, i) => [name, to[i]!]));
  const rename = (node: Node): Node =>
    node.kind === 'sym' ? { kind: 'sym', name: names.get(node.name) ?? node.name } : mapChildren(node, rename);
  return rename(pred);
}
