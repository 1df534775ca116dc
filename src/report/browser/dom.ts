/** Elements made of text that may come from anywhere: everything is set as text, never as markup. */
import { printable } from '../../base/printable';

type Child = Node | string | number | null;

type Attributes = Readonly<Record<string, string | number | null>>;

/** Attributes that are null are left out. */
export function setAttributes(element: Element, attributes: Attributes): void {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null) element.setAttribute(key, printable(String(value)));
  }
}

/** A new element. */
export function h<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  setAttributes(element, attributes);
  element.append(...nodes(children));
  return element;
}

const nodes = (children: readonly Child[]): (Node | string)[] =>
  children
    .filter((child) => child !== null)
    .map((child) => (child instanceof Node ? child : printable(String(child))));

/** Replaces what is in `element`. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...nodes(children));
}

/** Changes an element's text only if it differs, so that nothing is laid out again for nothing. */
export function setText(element: Element, text: string): void {
  const shown = printable(text);
  if (element.textContent !== shown) element.textContent = shown;
}

const SVG = 'http://www.w3.org/2000/svg';

export function svg(name: string, attributes: Attributes): SVGElement {
  const element = document.createElementNS(SVG, name);
  setAttributes(element, attributes);
  return element;
}
