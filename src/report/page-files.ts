/** The bundled scripts and styles of the pages (scripts/build-pages.mjs). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AcoerError, whyUnreadable } from '../errors';

/** Whether this file is compiled or not. */
const FOLDER = join(__dirname, '..', '..', 'dist', 'pages');

/** @throws SETUP if the pages were not built */
export function pageFile(name: string): Buffer {
  try {
    return readFileSync(join(FOLDER, name));
  } catch (cause) {
    const why = whyUnreadable(cause);
    throw new AcoerError('SETUP', `Cannot read ${join(FOLDER, name)}: ${why}; run npm run build:ts.`, {
      cause,
    });
  }
}
