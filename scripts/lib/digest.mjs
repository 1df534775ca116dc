/** SHA-256 of what was downloaded, checked before anything is unpacked. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { SourceFailure } from './errors.mjs';

/** @param {string} file @returns {Promise<string>} in lower-case hex */
async function sha256Of(file) {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  return hash.digest('hex');
}

/**
 * Throws SourceFailure unless the file has this digest.
 * @param {string} file @param {string} expected
 */
export async function requireDigest(file, expected) {
  const found = await sha256Of(file);
  if (found === expected) return;
  throw new SourceFailure(
    `${basename(file)} has the SHA-256 ${found} instead of ${expected}, so it was not used`,
  );
}
