/** YAML that others wrote. */
import { parseDocument } from 'yaml';

/**
 * The value of a YAML text. Unlike the library's own function it never prints: what that warns about (a tag
 * that it does not know, a doubtful alias, a list as a key) would reach the terminal with pieces of the text.
 * @param warnings whether a warning is a fault
 * @throws the first fault, whose message starts with a line that tells the place
 */
export function parseYaml(text: string, warnings: 'refuse' | 'ignore' = 'refuse'): unknown {
  const document = parseDocument(text, { logLevel: 'error' });
  const [fault] = warnings === 'refuse' ? [...document.errors, ...document.warnings] : document.errors;
  if (fault !== undefined) throw fault;
  return document.toJS();
}
