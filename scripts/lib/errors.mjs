/** Failures of set-up: one sentence that says what is wrong and the command that fixes it. */

export class SetupError extends Error {
  /** @param {string} message @param {{cause?: unknown}} [options] */
  constructor(message, options) {
    super(message, options);
    this.name = 'SetupError';
    this.code = 'SETUP';
  }
}

/** A failure of one source of libtorch, after which the next source is tried. */
export class SourceFailure extends Error {}

/** @param {unknown} value @param {string} name @returns {unknown} */
function field(value, name) {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

/** @param {unknown} error */
export function messageOf(error) {
  const message = field(error, 'message');
  return typeof message === 'string' ? message : String(error);
}

/**
 * The system's code (`ENOSPC`, `ENOTFOUND`...) of an error or its cause, also for errors from another realm.
 * @param {unknown} error @returns {string | undefined}
 */
export function systemCode(error) {
  for (let at = error; at !== undefined && at !== null; at = field(at, 'cause')) {
    const code = field(at, 'code');
    if (typeof code === 'string' && /^[A-Z0-9_]+$/.test(code)) return code;
  }
  return undefined;
}

/** @param {string} place a folder on the full disk */
export function diskFull(place) {
  return new SetupError(
    `the disk with ${place} is full: free some space (\`df -h ${place}\` shows it) or set XDG_CACHE_HOME to a folder on a larger disk, then try again.`,
  );
}
