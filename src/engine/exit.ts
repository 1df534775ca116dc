/** Ends the process even if an engine is stuck. */
import { writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { loadAddon, loadedAddon } from './binding';

const STDERR = 2;

/** A live view hides the cursor, and no listener of `exit` runs here. */
function showCursor(): void {
  try {
    if (isatty(STDERR)) writeSync(STDERR, '\x1b[?25h');
  } catch {
    // The terminal is gone, and its cursor with it.
  }
}

/**
 * Ends the process at once, even when an engine is stuck in a call, for which `process.exit` would wait.
 * Writes to files are complete; writes to a stream may be lost.
 */
export function exitNow(code: number): never {
  showCursor();
  return loadedAddon()?.exitNow(code) ?? process.exit(code);
}

/** The same from a thread that has no engine, while the main thread is blocked. */
export function exitFromThread(code: number): never {
  showCursor();
  return loadAddon().exitNow(code);
}
