/** YAML that others wrote. */
import { parseDocument } from 'yaml';
import { withinTime } from './deadline';
import { needThreads, TIMER_THREADS } from './threads';

/** The parser's time grows with the square of some faulty texts' length. */
const LIMIT_MS = 2_000;

/**
 * The value of a YAML text. Unlike the library's own function it never prints: what that warns about (a tag
 * that it does not know, a doubtful alias, a list as a key) would reach the terminal with pieces of the text.
 * @param refusal makes the error to throw from the first fault, whose message starts with a line that tells the
 * place
 * @param warnings whether a warning is a fault
 * @throws that error; DEVICE if no more threads can be started
 */
export function parseYaml(
  text: string,
  refusal: (fault: unknown) => Error,
  warnings: 'refuse' | 'ignore' = 'refuse',
): unknown {
  needThreads(TIMER_THREADS, 'Reading YAML');
  try {
    const read = withinTime(LIMIT_MS, () => valueOf(text, warnings));
    if (read === null) throw new Error(`YAML that takes more than ${LIMIT_MS / 1000} s to read`);
    return read.value;
  } catch (fault) {
    throw refusal(fault);
  }
}

function valueOf(text: string, warnings: 'refuse' | 'ignore'): unknown {
  const document = parseDocument(text, { logLevel: 'error' });
  const [fault] = warnings === 'refuse' ? [...document.errors, ...document.warnings] : document.errors;
  if (fault !== undefined) throw fault;
  return document.toJS();
}
