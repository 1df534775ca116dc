/** Joins numbers written in groups of three digits into one token; every other comma remains a separator. */
import { type Node, num } from './ast';
import { type Rational, rational } from './rational';
import { nesting, THOUSANDS, type Token } from './tokens';

const isLead = (token: Token | undefined): boolean => token?.t === 'num' && /^\d{1,3}$/.test(token.v);
const isGroup = (token: Token | undefined): boolean => token?.t === 'num' && /^\d{3}(\.\d+)?$/.test(token.v);
const isComma = (token: Token | undefined): boolean =>
  token?.t === 'sep' && (token.v === ',' || token.v === THOUSANDS);

/** Turns `{,}` into one thousands separator. */
function foldBracedCommas(tokens: readonly Token[]): Token[] {
  const out: Token[] = [];
  for (let i = 0; i < tokens.length; i++) {
    if (tokens[i]!.v === '{' && tokens[i + 1]?.v === ',' && tokens[i + 2]?.v === '}') {
      out.push({ t: 'sep', v: THOUSANDS, space: tokens[i]!.space });
      i += 2;
    } else {
      out.push(tokens[i]!);
    }
  }
  return out;
}

/** `1{,}234`, `1,\!234`, `1\,234` and `1 234`: groups that cannot be a list. */
function joinMarked(tokens: readonly Token[]): Token[] {
  const out: Token[] = [];
  for (let i = 0; i < tokens.length; i++) {
    const first = tokens[i]!;
    if (!isLead(first) || first.v.startsWith('0')) {
      out.push(first);
      continue;
    }
    let digits = first.v;
    while (!digits.includes('.')) {
      if (tokens[i + 1]?.v === THOUSANDS && isGroup(tokens[i + 2])) {
        digits += tokens[i + 2]!.v;
        i += 2;
      } else if (tokens[i + 1]?.space === true && isGroup(tokens[i + 1])) {
        digits += tokens[i + 1]!.v;
        i += 1;
      } else {
        break;
      }
    }
    out.push({ ...first, v: digits });
  }
  return out;
}

/** `1,234` alone is a number, in brackets or beside another separator a list; `0,5` is a decimal. */
function joinBare(tokens: readonly Token[]): Token[] {
  let depth = 0;
  const separators: number[] = [];
  tokens.forEach((token, i) => {
    depth += nesting(token);
    if (token.t === 'sep' && depth === 0) separators.push(i);
  });
  const [start] = separators;
  if (start === undefined || start === 0) return [...tokens];
  const plain = separators.every((at, k) => {
    const spaced = tokens[at]!.space || tokens[at + 1]?.space === true;
    return isComma(tokens[at]) && !spaced && isGroup(tokens[at + 1]) && at === start + 2 * k;
  });
  const first = tokens[start - 1]!;
  if (!plain || !isLead(first)) return [...tokens];
  const groups = separators.map((at) => tokens[at + 1]!.v);
  if (groups.slice(0, -1).some((group) => group.includes('.'))) return [...tokens];
  if (first.v.startsWith('0') && (first.v !== '0' || groups.length > 1)) return [...tokens];
  const v = first.v === '0' ? `0.${groups[0]}` : first.v + groups.join('');
  const number: Token = { t: 'num', v, space: first.space };
  return [...tokens.slice(0, start - 1), number, ...tokens.slice(start + 2 * groups.length)];
}

/** Joins numbers in arguments: \frac{1}{1,000}. */
function joinArguments(tokens: readonly Token[]): Token[] {
  const out: Token[] = [];
  for (let i = 0; i < tokens.length; i++) {
    out.push(tokens[i]!);
    if (tokens[i]!.v !== '{' || !isLead(tokens[i + 1]) || tokens[i + 1]!.v.startsWith('0')) continue;
    let [digits, end] = [tokens[i + 1]!.v, i + 2];
    while (tokens[end]?.v === ',' && isGroup(tokens[end + 1]) && !tokens[end + 1]!.space) {
      digits += tokens[end + 1]!.v;
      end += 2;
    }
    if (end === i + 2 || tokens[end]?.v !== '}') continue;
    out.push({ ...tokens[i + 1]!, v: digits });
    i = end - 1;
  }
  return out;
}

export function joinThousands(tokens: readonly Token[]): Token[] {
  return joinBare(joinArguments(joinMarked(foldBracedCommas(tokens))));
}

/** The number in a token: digits with a point, a repeating part (`0.1(6)`) or an exponent (`1.5e3`). */
export function numberNode(text: string): Node {
  const [, whole = '', fraction = '', repeating = '', exponent = '0'] =
    /^(\d*)(?:\.(\d*))?(?:\((\d+)\))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = BigInt(`${whole}${fraction}` || '0');
  const scale = 10n ** BigInt(fraction.length);
  if (repeating !== '') {
    // 0.1666... = (16 - 1) / 90.
    const nines = 10n ** BigInt(repeating.length) - 1n;
    return num(rational(digits * nines + BigInt(repeating), scale * nines));
  }
  return num(shifted(rational(digits, scale), Number(exponent)), text.includes('.'));
}

function shifted(value: Rational, exponent: number): Rational {
  const power = 10n ** BigInt(Math.abs(exponent));
  return exponent >= 0 ? rational(value.n * power, value.d) : rational(value.n, value.d * power);
}
