/**
 * Packages that only drawing or pushing needs. They are optional dependencies and loaded where something is drawn or
 * pushed, so a trainer is installed without them (`npm install --omit=optional`).
 */
import { AcoerError, errorCode } from './errors';

/**
 * @param user what needs the package, in the user's words
 * @param load an `import()` of `name`
 * @throws MISSING_PACKAGE, naming the command that installs it
 */
export async function optionalPackage<T>(user: string, name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    if (!['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'].includes(errorCode(cause) ?? '')) throw cause;
    throw new AcoerError(
      'MISSING_PACKAGE',
      `${user} needs the optional package ${name}, which is not installed; run npm install --include=optional.`,
      { cause },
    );
  }
}
