/** Unicode digits in the places where LaTeX has commands: raised, lowered, of full width. */

const RAISED = '⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ';
const LOWERED = '₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎';
const PLAIN = '0123456789+-=()n';

const plain = (run: string, signs: string): string =>
  [...run].map((sign) => PLAIN[signs.indexOf(sign)]!).join('');

/** The text with runs of raised and lowered digits as powers and subscripts, digits of full width as usual ones. */
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
