/** Unicode digits where LaTeX uses commands: superscript, subscript and full-width. */

const RAISED = '⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ';
const LOWERED = '₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎';
const PLAIN = '0123456789+-=()n';

const plain = (run: string, signs: string): string =>
  [...run].map((sign) => PLAIN[signs.indexOf(sign)]!).join('');

/** Rewrites superscript and subscript digits as powers and subscripts, full-width digits as ASCII ones. */
export function plainUnicode(text: string): string {
  return text
    .replace(
      /([⁰¹²³⁴⁵⁶⁷⁸⁹]+)[⁄∕/]([₀-₉]+)/g,
      (_, top: string, bottom: string) => `\\frac{${plain(top, RAISED)}}{${plain(bottom, LOWERED)}}`,
    )
    .replace(/[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ]+/g, (run) => `^{${plain(run, RAISED)}}`)
    .replace(/[₀-₉₊₋₌₍₎]+/g, (run) => `_{${plain(run, LOWERED)}}`)
    .replace(/[！-～]/g, (sign) => String.fromCharCode(sign.charCodeAt(0) - 0xfee0));
}
