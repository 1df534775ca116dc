/** The bundled scripts and styles of the pages (scripts/build-pages.mjs). */
import { join } from 'node:path';
import { AcoerError, whyUnreadable } from '../base/errors';
import { MAX_TEXT_BYTES, readRegularFileSync } from '../base/regular-file';

/** Whether this file is compiled or not. */
const FOLDER = join(__dirname, '..', '..', 'dist', 'pages');

/** @throws SETUP if the pages were not built */
export function pageFile(name: string): Buffer {
  try {
    return readRegularFileSync(join(FOLDER, name), MAX_TEXT_BYTES);
  } catch (cause) {
    const why = whyUnreadable(cause);
    throw new AcoerError('SETUP', `Cannot read ${join(FOLDER, name)}: ${why}; run npm run build:ts.`, {
      cause,
    });
  }
}
