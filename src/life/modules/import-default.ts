import { pathToFileURL } from 'node:url';
import { whyUnreadable } from '../../base/errors';
import { isRecord } from '../../base/json';
import { checkRegularFile } from '../../base/regular-file';

/** CommonJS and a compiler add one layer each. */
const MOST_LAYERS = 4;

/**
 * The default export of the user's module at `path`, without the layers that CommonJS and compilers add.
 * @throws Error for a default export that contains itself
 */
export async function importDefault(path: string): Promise<unknown> {
  await checkRegularFile(path).catch((cause: unknown) => {
    throw new Error(whyUnreadable(cause), { cause });
  });
  let found: unknown = await import(pathToFileURL(path).href);
  for (let layer = 0; isRecord(found) && found['default'] !== undefined; layer++) {
    if (layer === MOST_LAYERS)
      throw new Error('its default export has a default of its own, and so on without end');
    found = found['default'];
  }
  return found;
}
