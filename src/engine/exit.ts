/** Ends the process even if an engine is stuck. */
import { loadAddon, loadedAddon } from './binding';

/**
 * Ends the process at once, even when an engine is stuck in a call, for which `process.exit` would wait.
 * Writes to files are complete; writes to a stream may be lost.
 */
export function exitNow(code: number): never {
  return loadedAddon()?.exitNow(code) ?? process.exit(code);
}

/** The same from a thread that has no engine, while the main thread is blocked. */
export function exitFromThread(code: number): never {
  return loadAddon().exitNow(code);
}
