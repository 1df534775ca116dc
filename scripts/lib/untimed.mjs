/** Files of a run as they are compared with those of another: without the wall times in them. */
import { readFileSync } from 'node:fs';

const TIMED = /^(step_time$|time\/|memory\/|directory$)/;

/** @param {string} text */
const untimed = (text) =>
  JSON.stringify(JSON.parse(text), (name, value) => (TIMED.test(name) ? undefined : value));

/**
 * The content of a file of a run as text.
 *
 * @param {string} path
 */
export function untimedContent(path) {
  const bytes = readFileSync(path);
  if (path.endsWith('.json')) return untimed(bytes.toString());
  if (!path.endsWith('.jsonl')) return bytes.toString('base64');
  const lines = bytes.toString().split('\n');
  return lines.map((line) => (line === '' ? '' : untimed(line))).join('\n');
}
