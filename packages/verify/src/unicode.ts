/**
 * Characters that look like others, are not seen at all, or stand for a LaTeX command, as the plain ones: one
 * pass over a text before anything is looked for in it, and the signs that become commands in an answer.
 */

/** Meanings in LaTeX, each followed by the signs that have it. */
const MEANINGS = String.raw`
  - −–∸‒‐‑➖  + ➕  * ∗  / ÷∕⁄➗  : ∶  := ≔  | ∣  , ，、٬  ; ；  . 。٫  % ％  ( （  ) ）  0 ↉
  ' ‘’‛′  '' ″  ''' ‴  " “”
  \times ×✕✖⨯  \cdot ⋅·∙•  \pm ±  \mp ∓  \sqrt √  \sqrt[3] ∛  \sqrt[4] ∜  \sum ∑  \prod ∏  \infty ∞
  \le ≤≦⩽  \ge ≥≧⩾  \ne ≠  \approx ≈  \sim ∼  \simeq ≃  \cong ≅  \equiv ≡  \degree °˚º
  \lfloor ⌊  \rfloor ⌋  \lceil ⌈  \rceil ⌉  \langle ⟨〈  \rangle ⟩〉  \ldots …  \cdots ⋯
  \cup ∪⋃  \cap ∩⋂  \setminus ∖⧵  \in ∈  \notin ∉  \emptyset ∅⌀
  \forall ∀  \land ∧  \lor ∨  \to →⇒  \mapsto ↦  \partial ∂  \nabla ∇  \ell ℓ  \hbar ℏ
  \mathbb{R} ℝ  \mathbb{Z} ℤ  \mathbb{N} ℕ  \mathbb{Q} ℚ  \mathbb{C} ℂ  \mathbb{P} ℙ
  \frac12 ½  \frac13 ⅓  \frac23 ⅔  \frac14 ¼  \frac34 ¾  \frac15 ⅕  \frac25 ⅖  \frac35 ⅗  \frac45 ⅘  \frac16 ⅙
  \frac56 ⅚  \frac17 ⅐  \frac18 ⅛  \frac38 ⅜  \frac58 ⅝  \frac78 ⅞  \frac19 ⅑  \frac1{10} ⅒
  \alpha α  \beta β  \gamma γ  \delta δ  \epsilon εϵ  \zeta ζ  \eta η  \theta θϑ  \iota ι  \kappa κ  \lambda λ
  \mu µμ  \nu ν  \xi ξ  \pi π  \varpi ϖ  \rho ρ  \sigma σ  \tau τ  \phi φϕ  \chi χ  \psi ψ  \omega ω
  \Gamma Γ  \Delta Δ  \Theta Θ  \Lambda Λ  \Xi Ξ  \Pi Π  \Sigma Σ  \Phi Φ  \Psi Ψ  \Omega Ω
`;

/** Unicode signs and what they mean in LaTeX. */
export const UNICODE: ReadonlyMap<string, string> = new Map(
  [...MEANINGS.matchAll(/(\S+) (\S+)/g)].flatMap(([, meaning, signs]) =>
    [...signs!].map((sign) => [sign, meaning!] as const),
  ),
);

/** Not seen: what Unicode says may be ignored in display, marks of direction, control characters. */
const INVISIBLE =
  /(?![\t\n\v\f\r\x85\u2062-\u2064])[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Cc}\ufff9-\ufffb]/gu;
/** Between digits these are operators: 2 times 3 is not 23. Elsewhere leaving them out changes nothing. */
const OPERATORS: Readonly<Record<string, string>> = { '\u2062': '×', '\u2063': ',', '\u2064': '+' };
const BETWEEN_DIGITS = /(?<=\p{Nd})[\u2062-\u2064](?=\p{Nd})/gu;
/** What a right-to-left override shows backwards, up to its end or the end of the line. */
const OVERRIDE = /\u202e[^\u202c\n]*\u202c?/gu;
const BACKWARDS = '\ufffd';
/**
 * Letters, digits and signs in another style: mathematical, full-width, small, letterlike, Roman numerals.
 * Superscripts and fractions are not among them: there the style is the meaning.
 */
const STYLED =
  /[\u{1d400}-\u{1d7ff}\uff01-\uff5e\ufe50-\ufe6b\u2160-\u217f\u2103\u2109-\u210c\u210e\u2110-\u2112\u211b\u211c\u2126\u2128\u212a-\u212d\u212f-\u2131\u2133\u2134\u2139\u213c\u213d\u2145-\u2148]/gu;
const PI_SYMBOL = /[\u{1d6e1}\u{1d71b}\u{1d755}\u{1d78f}\u{1d7c9}]/gu;

/**
 * `text` without what is not seen, and with ASCII or Greek letters and ASCII digits for those in another
 * style or script. Text that a right-to-left override shows backwards becomes unreadable, not its reverse.
 */
export function plainCharacters(text: string): string {
  if (/^[\t\n\r\x20-\x7e]*$/.test(text)) return text;
  return text
    .replace(OVERRIDE, asShown)
    .replace(INVISIBLE, '')
    .replace(BETWEEN_DIGITS, (sign) => OPERATORS[sign]!)
    .replace(/[\u2062-\u2064]/g, '')
    .replaceAll('\x85', ' ')
    .replace(PI_SYMBOL, 'ϖ')
    .replace(STYLED, (sign) => sign.normalize('NFKC'))
    .replace(/(?![0-9])\p{Nd}/gu, asciiDigit);
}

function asShown(run: string): string {
  const shown = [...run.replace(INVISIBLE, '')];
  const same = shown.every((sign, i) => sign === shown[shown.length - 1 - i]);
  return same ? shown.join('') : BACKWARDS + shown.join('');
}

/** The digits of a script follow each other from zero to nine, so the place in such a run is the value. */
function asciiDigit(digit: string): string {
  let before = 0;
  while (before < 9 && /\p{Nd}/u.test(String.fromCodePoint(digit.codePointAt(0)! - before - 1))) before++;
  return `${before}`;
}

const RAISED = '⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣʸᵃᵇᵏᵐᵗ';
const LOWERED = '₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙᵢₓₐₖₘₜ';

const plain = (run: string): string => run.normalize('NFKC');

const FRACTION = /([⁰¹²³⁴⁵⁶⁷⁸⁹]+)[⁄∕/]([₀-₉]+)/g;
const RAISED_RUN = new RegExp(`[${RAISED}]+`, 'g');
const LOWERED_RUN = new RegExp(`[${LOWERED}]+`, 'g');

/** Rewrites superscript and subscript digits as powers and subscripts. */
export function plainUnicode(text: string): string {
  return text
    .replace(FRACTION, (_, top: string, bottom: string) => `\\frac{${plain(top)}}{${plain(bottom)}}`)
    .replace(RAISED_RUN, (run) => `^{${plain(run)}}`)
    .replace(LOWERED_RUN, (run) => `_{${plain(run)}}`);
}
