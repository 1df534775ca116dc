/** The end of the process that nothing can hold up. */
import { loadAddon, loadedAddon } from './binding';

/**
 * Ends the process at once, also when an engine is stuck in a call, for which `process.exit` would wait. What was written
 * to files is there, what was written to a stream may not be.
 */
export function exitNow(code: number): never {
  return loadedAddon()?.exitNow(code) ?? process.exit(code);
}

/** The same from a thread that has no engine, while the main thread is blocked. */
export function exitFromThread(code: number): never {
  return loadAddon().exitNow(code);
}
