/** Elements from text. Text never becomes HTML: it is only ever a text node. */
type Child = Node | string | null;
type Properties = Record<string, string | number | boolean | ((event: Event) => void)>;

/** `on...` properties are listeners; `true` is an attribute without a value, `false` none. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === 'function') made.addEventListener(key.slice(2), value);
    else if (value !== false) made.setAttribute(key, value === true ? '' : String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}
