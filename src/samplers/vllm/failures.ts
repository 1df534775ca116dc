/** The errors that a sampler's servers end a run with. */
import { AcoerError } from '../../base/errors';
import { duration } from '../../base/text';

/** @param what a sentence that names the server; a server's own may end with a full stop */
export const samplerFailed = (what: string, cause?: unknown): AcoerError =>
  new AcoerError('SAMPLER_FAILED', `The sampler failed: ${what.replace(/[.]$/, '')}.`, { cause });

/** @param why what the servers failed with */
export const samplerLost = (why: string, waitedMs: number): AcoerError =>
  new AcoerError(
    'SAMPLER_LOST',
    `No server of the sampler's has answered for ${duration(waitedMs)} (${why}).`,
  );
