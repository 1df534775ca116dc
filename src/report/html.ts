/** Text into HTML. A report holds what models and data sets wrote, so everything is escaped unless made here. */

import { escaped } from '../base/printable';

/** HTML that is safe to insert as it is. */
export class Html {
  constructor(readonly text: string) {}
}

type Part = Html | string | number | null | readonly Part[];

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
