import { pathToFileURL } from 'node:url';
import { whyUnreadable } from '../errors';
import { isRecord } from '../json';
import { checkRegularFile } from '../regular-file';

/** The default export of the user's module at `path`, without the layers that CommonJS and compilers add. */
export async function importDefault(path: string): Promise<unknown> {
  await checkRegularFile(path).catch((cause: unknown) => {
    throw new Error(whyUnreadable(cause), { cause });
  });
  let found: unknown = await import(pathToFileURL(path).href);
  while (isRecord(found) && found['default'] !== undefined) found = found['default'];
  return found;
}
