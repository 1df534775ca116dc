/** Points written with their names, `P(2,3)`, become `P = (2,3)`. */
import type { Node, NodeOf } from './ast';

/** A capital letter, with a prime or an index. Small letters are functions: f(2,3) is a value. */
const NAME = /^[A-Z](?:'|_[A-Za-z0-9]{1,4})*$/;

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
  if (!NAME.test(name) || place.kind !== 'tuple' || place.open !== '(' || place.close !== ')') return null;
  return { kind: 'relation', sides: [{ kind: 'sym', name }, place], ops: ['='] };
}
