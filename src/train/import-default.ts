import { pathToFileURL } from 'node:url';
import { isRecord } from '../json';

/** The default export of the user's module at `path`, without the layers that CommonJS and compilers add. */
export async function importDefault(path: string): Promise<unknown> {
  let found: unknown = await import(pathToFileURL(path).href);
  while (isRecord(found) && found['default'] !== undefined) found = found['default'];
  return found;
}
