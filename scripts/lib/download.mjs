/** One file over HTTP(S) to disk, with progress; a body that ends early is a failure. */
import { createWriteStream } from 'node:fs';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { diskFull, messageOf, SourceFailure, systemCode } from './errors.mjs';
import { progress } from './log.mjs';

const CONNECT_TIMEOUT_MS = 6000;
const STALL_TIMEOUT_MS = 60_000;

/** @param {unknown} error @param {string} host */
function unreachable(error, host) {
  const { cause } = /** @type {{cause?: unknown}} */ (error); // fetch says only "fetch failed" itself
  return new SourceFailure(`${host} cannot be reached (${systemCode(error) ?? messageOf(cause ?? error)})`);
}

/** Passes chunks on and aborts when none has come for a minute. @param {AsyncIterable<Uint8Array>} body @param {AbortController} controller @param {(bytes: number) => void} onBytes */
async function* watched(body, controller, onBytes) {
  let timer = setTimeout(() => controller.abort(), STALL_TIMEOUT_MS);
  try {
    for await (const chunk of body) {
      clearTimeout(timer);
      timer = setTimeout(() => controller.abort(), STALL_TIMEOUT_MS);
      onBytes(chunk.length);
      yield chunk;
    }
  } finally {
    clearTimeout(timer);
  }
}

/**
 * @param {string} url @param {string} file where it is written
 * @param {{connectTimeoutMs?: number}} [options] a blocked network must not cost minutes
 * Throws SourceFailure when the server cannot be reached, answers with an error or breaks off.
 */
export async function download(url, file, { connectTimeoutMs = CONNECT_TIMEOUT_MS } = {}) {
  const { host } = new URL(url);
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new Error(`no answer in ${connectTimeoutMs / 1000} s`)),
    connectTimeoutMs,
  );
  /** @type {Response} */
  let response;
  try {
    response = await fetch(url, { signal: controller.signal });
  } catch (error) {
    throw unreachable(error, host);
  } finally {
    clearTimeout(timer);
  }
  if (!response.ok || !response.body) {
    await response.body?.cancel();
    throw new SourceFailure(`${url} answers ${response.status} ${response.statusText}`.trim());
  }
  const total = Number(response.headers.get('content-length')) || null;
  const bar = progress(`downloading ${decodeURIComponent(url.slice(url.lastIndexOf('/') + 1))}`);
  let done = 0;
  try {
    const body = watched(/** @type {AsyncIterable<Uint8Array>} */ (response.body), controller, (bytes) => {
      done += bytes;
      bar.update(done, total);
    });
    await pipeline(Readable.from(body), createWriteStream(file));
  } catch (error) {
    if (systemCode(error) === 'ENOSPC' || systemCode(error) === 'EDQUOT') throw diskFull(dirname(file));
    throw new SourceFailure(
      `the download of ${url} broke off after ${done} bytes (${systemCode(error) ?? messageOf(error)})`,
    );
  } finally {
    bar.end();
  }
  if (total !== null && done !== total)
    throw new SourceFailure(`the download of ${url} ended at ${done} of ${total} bytes`);
}
