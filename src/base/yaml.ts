/** YAML that others wrote. */
import { type Document, isPair, LineCounter, parseDocument, visit, type YAMLError } from 'yaml';
import { withinTime } from './deadline';
import { needThreads, TIMER_THREADS } from './threads';

/** The time of some texts grows with the square of their length. */
const LIMIT_MS = 2_000;

/**
 * The value of a YAML text. Unlike the library's own function it never prints: what that warns about (a tag
 * that it does not know, a doubtful alias, a list as a key) would reach the terminal with pieces of the text.
 * @param refusal makes the error to throw from the first fault, whose message tells the place
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

/** The fault with its place, in one line: what a message quotes may go over several. */
function withPlace(fault: YAMLError, lineCounter: LineCounter): YAMLError {
  const { line, col } = lineCounter.linePos(fault.pos[0]);
  fault.message = `${fault.message.split('\n')[0]} at line ${line}, column ${col}`;
  return fault;
}

/** Making text of such a key takes twice as long for each level. */
function hasKeysInKeys(document: Document): boolean {
  let found = false;
  visit(document, {
    Collection: (place, _, path) => {
      if (place !== 'key' || !path.some((above, i) => isPair(above) && above.key === path[i + 1])) return;
      found = true;
      return visit.BREAK;
    },
  });
  return found;
}

function valueOf(text: string, warnings: 'refuse' | 'ignore'): unknown {
  // The library would look up the place of every fault, each in time that grows with the line.
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { logLevel: 'error', prettyErrors: false, lineCounter });
  const [fault] = warnings === 'refuse' ? [...document.errors, ...document.warnings] : document.errors;
  if (fault !== undefined) throw withPlace(fault, lineCounter);
  if (hasKeysInKeys(document)) throw new Error('a key that holds lists or maps as keys');
  return document.toJS();
}
