/** Answer equality: the same string after light normalisation, or the same rational number exactly. */

interface Rational {
  numerator: bigint;
  denominator: bigint;
}

/** Longer numbers compare as strings: BigInt parsing is quadratic. */
const MAX_DIGITS = 400;

/** Removes what LaTeX only draws: spacing, \left and \right, dollar signs, one trailing full stop. */
export function normalise(answer: string): string {
  return answer
    .replace(/\\left(?![a-zA-Z])|\\right(?![a-zA-Z])|\\[!,;: ]|\\q?quad(?![a-zA-Z])|\\\$|\$|\s+/g, '')
    .replace(/\\[dt]frac(?![a-zA-Z])/g, '\\frac')
    .replace(/\u2212/g, '-')
    .replace(/(?<=.)\.$/, '');
}

function decimal(text: string): Rational | null {
  const match = /^([+-]?)(\d{1,3}(?:,\d{3})+|\d*)(?:\.(\d+))?$/.exec(text);
  if (match === null) return null;
  const [, sign, whole, fraction = ''] = match;
  const digits = whole.replace(/,/g, '') + fraction;
  if (digits === '' || digits.length > MAX_DIGITS) return null;
  const numerator = BigInt(digits);
  return { numerator: sign === '-' ? -numerator : numerator, denominator: 10n ** BigInt(fraction.length) };
}

function quotient(top: Rational | null, bottom: Rational | null, sign: string): Rational | null {
  if (top === null || bottom === null || bottom.numerator === 0n) return null;
  const numerator = top.numerator * bottom.denominator;
  return {
    numerator: sign === '-' ? -numerator : numerator,
    denominator: top.denominator * bottom.numerator,
  };
}

/** Integers, decimals, a/b, \frac{a}{b} and \frac12 of a normalised answer; null for anything else. */
function rational(text: string): Rational | null {
  const frac = /^([+-]?)\\frac(?:\{([^{}]+)\}|(\d))(?:\{([^{}]+)\}|(\d))$/.exec(text);
  if (frac !== null) return quotient(decimal(frac[2] ?? frac[3]), decimal(frac[4] ?? frac[5]), frac[1]);
  const slash = /^([^/]+)\/([^/]+)$/.exec(text);
  if (slash !== null) return quotient(decimal(slash[1]), decimal(slash[2]), '');
  return decimal(text);
}

/** Whether two answers, as extracted, are the same. */
export function sameAnswer(gold: string, answer: string): boolean {
  const [a, b] = [normalise(gold), normalise(answer)];
  if (a === b) return true;
  const [p, q] = [rational(a), rational(b)];
  return p !== null && q !== null && p.numerator * q.denominator === q.numerator * p.denominator;
}
