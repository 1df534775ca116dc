/**
 * Functions and sequences as they are defined: a signature before, a quantifier or domain after, arrows for
 * equals signs. `f\colon \mathbb{R} \to \mathbb{R}, x \mapsto 2x + 1` is `f(x) = 2x + 1` over the reals.
 */
import { freeSymbols, type Node, type NodeOf, type SetName } from './ast';
import { definitionOf, UNNAMED } from './bound';
import { attempt, isSign, nesting, NotParsed, operator, type Token } from './tokens';

type Parse = (tokens: readonly Token[]) => Node;

/** Longer conditions are read as parts of a list. */
const MAX_CONDITION = 48;

/** null without a signature, an arrow or a condition of its own. `parse` may throw NotParsed. */
export function defined(tokens: readonly Token[], parse: Parse): Node | null {
  const signature = signatureOf(tokens);
  const arrows = withoutArrow(tokens.slice(signature?.end ?? 0), signature?.name ?? null);
  if (signature !== null) {
    const rest = arrows ?? tokens.slice(signature.end);
    const node = conditioned(rest, parse) ?? parse(rest);
    return withDomain(node, { variables: null, set: parse(withSet(signature.from)) });
  }
  return conditioned(arrows ?? tokens, parse) ?? (arrows === null ? null : parse(arrows));
}

interface Condition {
  /** null: all of them. */
  variables: string[] | null;
  /** The set of values, or an inequality; null when it says nothing about them. */
  set: Node | null;
}

/** Looks for a condition at the end, then at the beginning. */
function conditioned(tokens: readonly Token[], parse: Parse): Node | null {
  for (const { end, from, to } of splits(tokens)) {
    const condition = attempt(() => conditionOf(tokens.slice(from, to), parse));
    const node = condition === null ? null : attempt(() => parse(tokens.slice(0, end)));
    const result = node === null ? null : withDomain(node, condition!);
    if (result !== null) return result;
  }
  const comma = tokens.findIndex((token) => token.t === 'sep' || isSign(token, ':'));
  if (comma < 1 || comma > MAX_CONDITION) return null;
  const condition = attempt(() => conditionOf(tokens.slice(0, comma), parse));
  const node = condition === null ? null : attempt(() => parse(tokens.slice(comma + 1)));
  return node === null ? null : withDomain(node, condition!);
}

/** Where a condition may begin: after a separator or wide space, at a quantifier, in brackets at the end. */
function splits(tokens: readonly Token[]): { end: number; from: number; to: number }[] {
  const found: { end: number; from: number; to: number }[] = [];
  const opened: number[] = [];
  tokens.forEach((token, i) => {
    const last = tokens.length;
    if (nesting(token) > 0) opened.push(i);
    else if (nesting(token) < 0) {
      const start = opened.pop() ?? 0;
      if (i === last - 1 && token.v === ')' && opened.length === 0)
        found.push({ end: start, from: start + 1, to: i });
    }
    if (opened.length > 0 || i === 0) return;
    if (token.t === 'sep') found.push({ end: i, from: i + 1, to: last });
    else if (token.wide === true || isQuantifier(token)) found.push({ end: i, from: i, to: last });
  });
  return found.filter(({ end, from, to }) => end > 0 && to > from && to - from <= MAX_CONDITION);
}

const QUANTIFIER = /^(?:for|where|when|if|with|on|valid|defined)\b/;

/** The words of a token; null for one that is no word. */
function wordsOf(token: Token | undefined): string | null {
  const isWord = token?.t === 'text' || (token?.t === 'letters' && token.v.length > 1);
  return isWord ? token.v.toLowerCase().trim().replace(/\s+/g, ' ') : null;
}

const isQuantifier = (token: Token): boolean =>
  isSign(token, 'forall') || QUANTIFIER.test(wordsOf(token) ?? '');

const KIND =
  '(real|complex|rational|natural|integer|(?:positive|non-?negative) integer)s?(?: numbers?| integers?)?';
/** `for all real numbers x`, and the like. */
const FOR_ALL = new RegExp(
  '^(?:(?:which |valid |defined |holds |true )?(?:for|where|when|if|with|on)(?: all| every| any| each| arbitrary)?' +
    `(?: ${KIND})?(?: numbers?| values?(?: of)?)?)?(?: ([a-z]))?$`,
);
/** What may follow a name: `is a real number`, `real`. */
const IS = new RegExp(`^(?:(?:is|are) (?:an? |any )?)?${KIND}$`);

const NAMED: Readonly<Record<string, SetName>> = { real: 'R', complex: 'C', rational: 'Q', integer: 'Z' };
/** Whether zero belongs to them is told apart by nobody. */
const namedSet = (kind: string): Node => ({ kind: 'named', name: NAMED[kind] ?? 'N' });

/** Throws NotParsed. */
function conditionOf(tokens: readonly Token[], parse: Parse): Condition {
  let at = 0;
  while (tokens[at]?.t === 'sep') at++;
  if (tokens[at]?.v === '(' && tokens.at(-1)?.v === ')') return conditionOf(tokens.slice(at + 1, -1), parse);
  const said: string[] = [];
  if (isSign(tokens[at], 'forall')) at++;
  else
    for (; wordsOf(tokens[at]) !== null && wordsOf(tokens[at]) !== 'in'; at++)
      said.push(wordsOf(tokens[at])!);
  const words = FOR_ALL.exec(said.join(' '));
  if (words === null) throw new NotParsed('no quantifier');
  const [, kind, name] = words;
  const ofWords = kind === undefined ? null : namedSet(kind);
  const rest = tokens.slice(at);
  if (rest.length === 0) {
    if (name === undefined && kind === undefined) throw new NotParsed('no variable');
    return { variables: name === undefined ? null : [name], set: ofWords };
  }
  if (said.join(' ') === 'on') return { variables: null, set: parse(withSet(rest)) };
  const { variables, end } = variablesOf(rest);
  if (variables.length > 0 && end === rest.length && at > 0) return { variables, set: ofWords };
  const is = IS.exec(rest.slice(end).map(wordsOf).join(' '))?.[1];
  if (variables.length > 0 && is !== undefined) return { variables, set: namedSet(is) };
  if (variables.length > 0 && isMember(rest[end]))
    return { variables, set: parse(withSet(rest.slice(end + 1))) };
  if (!rest.some((token) => isSign(token, '<', '>', 'le', 'ge', 'ne'))) throw new NotParsed('no condition');
  const relation = parse(rest);
  if (relation.kind !== 'relation' || relation.ops.includes('=')) throw new NotParsed('no condition');
  return { variables: [...freeSymbols(relation)], set: relation };
}

const isMember = (token: Token | undefined): boolean =>
  (token?.t === 'cmd' || token?.t === 'letters') && token.v === 'in';

const POSITIVE_REALS = /^mathbb\{?R\}?[\^_]\{?(?:\+|>0)\}?$/;
const WHOLE_NUMBERS = /^mathbb\{?[ZN]\}?[\^_]\{?(?:\+|\*|0|>0|ge[01])\}?$/;

/** A plain R after `\in` is the real numbers; `\mathbb{R}^+` are the positive ones. */
function withSet(tokens: readonly Token[]): Token[] {
  const written = tokens.map(({ v }) => v).join('');
  const token = (t: Token['t'], v: string): Token => ({ t, v, space: false });
  if (tokens.length === 1 && tokens[0]!.t === 'letters' && /^[RNZQC]$/.test(written))
    return [token('cmd', 'mathbb'), tokens[0]!];
  if (WHOLE_NUMBERS.test(written)) return [token('cmd', 'mathbb'), token('letters', 'N')];
  if (!POSITIVE_REALS.test(written)) return [...tokens];
  return [operator('('), token('num', '0'), token('sep', ','), token('cmd', 'infty'), operator(')')];
}

/** The names at the beginning, separated by commas. */
function variablesOf(tokens: readonly Token[]): { variables: string[]; end: number } {
  const variables: string[] = [];
  let end = 0;
  for (; tokens[end]?.t === 'letters' && tokens[end]!.v.length === 1; end++) {
    variables.push(tokens[end]!.v);
    if (tokens[end + 1]?.t !== 'sep' || tokens[end + 2]?.t !== 'letters') return { variables, end: end + 1 };
    end++;
  }
  return { variables, end };
}

/** Letters that stand for whole numbers, and for complex ones. */
const WHOLE = /^[ijklmn]$/;
const COMPLEX = /^[zw]$/;

/** Whether the set is what everybody takes for granted for such a variable. */
function isUsual(set: Node, variables: readonly string[]): boolean {
  if (set.kind === 'named') {
    if (set.name === 'R') return variables.every((name) => !WHOLE.test(name));
    if (set.name === 'C') return variables.every((name) => COMPLEX.test(name));
    return (set.name === 'N' || set.name === 'Z') && variables.every((name) => WHOLE.test(name));
  }
  // n >= 1
  const from = set.kind === 'relation' && set.ops.length === 1 && set.ops[0] === '>=' ? set.sides[1]! : null;
  const start = from?.kind === 'num' && from.value.d === 1n && (from.value.n === 0n || from.value.n === 1n);
  return start && variables.every((name) => WHOLE.test(name));
}

/**
 * `node` for the values that the condition allows; null when the condition is not about it. A formula that
 * defines nothing can only have one that says nothing.
 */
function withDomain(node: Node, { variables, set }: Condition): Node | null {
  const definition = definitionOf(node);
  const own = definition?.params ?? [...parametersOf(node)];
  const about = variables ?? own;
  if (about.length === 0 || !about.every((name) => own.includes(name))) return null;
  if (set === null) return node;
  const usual = isUsual(set, about);
  if (definition !== null)
    return { ...(node as NodeOf<'relation'>), domain: definition.domain ?? { set, usual } };
  return usual && set.kind === 'named' && set.name === 'R' ? node : null;
}

/** The variables of all definitions in a list, else those of the formula. */
function parametersOf(node: Node): ReadonlySet<string> {
  const definitions = node.kind === 'set' ? node.items.map(definitionOf) : [];
  if (definitions.length === 0 || definitions.some((one) => one === null)) return freeSymbols(node);
  return new Set(definitions.flatMap((one) => one!.params));
}

interface Signature {
  name: Token[];
  from: Token[];
  /** Where what follows the signature begins. */
  end: number;
}

/** `f : A \to B,` before a definition. */
function signatureOf(tokens: readonly Token[]): Signature | null {
  const colon = tokens.findIndex((token) => isSign(token, ':'));
  const arrow = tokens.findIndex((token) => isSign(token, 'to'));
  if (colon < 1 || colon > 4 || arrow < colon + 2) return null;
  const separates = (token: Token | undefined): boolean =>
    token?.t === 'sep' || token?.t === 'text' || isSign(token, ':');
  let end = tokens.findIndex((token, i) => i > arrow + 1 && (separates(token) || token.wide === true));
  if (end < 0) return null;
  while (separates(tokens[end])) end++;
  const defines = tokens.slice(end).some((token) => isSign(token, 'mapsto', '='));
  return defines ? { name: tokens.slice(0, colon), from: tokens.slice(colon + 1, arrow), end } : null;
}

/** `f : x \mapsto E` as f(x) = E; null without an arrow. */
function withoutArrow(tokens: readonly Token[], name: Token[] | null): Token[] | null {
  const colon = tokens.findIndex((token) => isSign(token, ':'));
  const isArrow = (token: Token, i: number): boolean =>
    isSign(token, 'mapsto') || (isSign(token, 'to') && colon > 0 && i > colon + 1);
  const arrow = tokens.findIndex(isArrow);
  if (arrow < 1 || colon > arrow) return null;
  const named = colon > 0 ? tokens.slice(0, colon) : name;
  const given = tokens.slice(colon + 1, arrow);
  const inner = given[0]?.v === '(' && given.at(-1)?.v === ')' ? given.slice(1, -1) : given;
  const { variables, end } = variablesOf(inner);
  if (variables.length === 0 || end !== inner.length || (named?.length ?? 1) > 4) return null;
  // f : A \to B is no definition.
  if (variables.some((variable) => variable !== variable.toLowerCase())) return null;
  const function_: readonly Token[] = named ?? [{ t: 'cmd', v: UNNAMED, space: false }];
  return [...function_, operator('('), ...inner, operator(')'), operator('='), ...tokens.slice(arrow + 1)];
}
