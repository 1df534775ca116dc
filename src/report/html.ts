/** Text into HTML. A report holds what models and data sets wrote, so everything is escaped unless made here. */

/** HTML that is safe to insert as it is. */
export class Html {
  constructor(readonly text: string) {}
}

type Part = Html | string | number | null | readonly Part[];

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/**
 * Control characters, and those that reorder the text around them (Unicode TR 36), made visible: as control
 * pictures or code points.
 */
export const visible = (text: string): string =>
  text.toWellFormed().replace(/(?![\t\n])[\p{Cc}\p{Bidi_Control}\u2028\u2029\ufffe\uffff]/gu, (c) => {
    const code = c.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
  });

export const escaped = (text: string): string => visible(text).replace(/[&<>"']/g, (c) => ENTITIES[c]!);

function inserted(part: Part): string {
  if (part === null) return '';
  if (part instanceof Html) return part.text;
  return typeof part === 'object' ? part.map(inserted).join('') : escaped(String(part));
}

/**
 * A template whose values are escaped; null inserts nothing, a list its parts. (Prettier would reformat one
 * called `html`, and whitespace counts here.)
 */
export function markup(strings: TemplateStringsArray, ...values: Part[]): Html {
  return new Html(strings.map((text, i) => text + (i < values.length ? inserted(values[i]!) : '')).join(''));
}

export const joined = (parts: readonly Html[]): Html => new Html(parts.map(({ text }) => text).join('\n'));
