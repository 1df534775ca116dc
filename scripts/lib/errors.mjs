/** Failures of set-up: one sentence that says what is wrong and the command that mends it. */

export class SetupError extends Error {
  /** @param {string} message @param {{cause?: unknown}} [options] */
  constructor(message, options) {
    super(message, options);
    this.name = 'SetupError';
    this.code = 'SETUP';
  }
}

/** A failure of one source of libtorch after which the next source is tried. */
export class SourceFailure extends Error {}

/** @param {unknown} error */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/** The system's code (`ENOSPC`, `ENOTFOUND`...) of an error or of what caused it. @param {unknown} error @returns {string | undefined} */
export function systemCode(error) {
  for (let at = error; at instanceof Error; at = at.cause) {
    if ('code' in at && typeof at.code === 'string' && /^[A-Z0-9_]+$/.test(at.code)) return at.code;
  }
  return undefined;
}

/** @param {string} place a folder on the disk that is full */
export function diskFull(place) {
  return new SetupError(
    `the disk that holds ${place} is full: free some space (\`df -h ${place}\` shows it) or set XDG_CACHE_HOME to a folder on a larger disk, then run it again.`,
  );
}
