/** Formulas in text, as MathML, which browsers draw themselves. */
import renderMathInElement from 'katex/contrib/auto-render';

/** Longer texts stay as they are: nobody reads a megabyte of formulas. */
const LONGEST = 200_000;

const DELIMITERS = [
  { left: '$$', right: '$$', display: true },
  { left: '\\[', right: '\\]', display: true },
  { left: '\\(', right: '\\)', display: false },
  { left: '$', right: '$', display: false },
];

/** Renders the formulas in the text nodes of `root`; what is no formula, or a broken one, stays text. */
export function renderMath(root: HTMLElement): void {
  if ((root.textContent ?? '').length > LONGEST) return;
  renderMathInElement(root, {
    delimiters: DELIMITERS,
    output: 'mathml',
    throwOnError: false,
    trust: false,
    strict: 'ignore',
    maxExpand: 200,
    maxSize: 20,
    errorCallback: () => undefined,
  });
}
