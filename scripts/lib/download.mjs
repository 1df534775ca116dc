/** Downloads one file over HTTP(S) with progress; a body that ends early is a failure. */
import { createWriteStream } from 'node:fs';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { diskFull, messageOf, SourceFailure, systemCode } from './errors.mjs';
import { progress } from './log.mjs';
import { fetchThroughProxy, whichProxy } from './proxy.mjs';

const CONNECT_TIMEOUT_MS = 6000;
const STALL_TIMEOUT_MS = 60_000;

/** @param {unknown} error @param {string} url @param {NodeJS.ProcessEnv} env */
function unreachable(error, url, env) {
  const { cause } = /** @type {{cause?: unknown}} */ (error); // fetch itself only says "fetch failed"
  const reason = systemCode(error) ?? messageOf(cause ?? error);
  return new SourceFailure(`${new URL(url).host} cannot be reached${whichProxy(url, env)} (${reason})`);
}

/**
 * Passes chunks on, and aborts when none has arrived for a minute.
 * @param {AsyncIterable<Uint8Array>} body
 * @param {AbortController} controller
 * @param {(bytes: number) => void} onBytes
 */
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
 * @param {string} url @param {string} file where to write it
 * @param {{connectTimeoutMs?: number, env?: NodeJS.ProcessEnv}} [options] a blocked network must not cost
 * minutes Throws SourceFailure if the server cannot be reached, answers with an error or closes the
 * connection early.
 */
export async function download(url, file, { connectTimeoutMs = CONNECT_TIMEOUT_MS, env = process.env } = {}) {
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new Error(`no answer in ${connectTimeoutMs / 1000} s`)),
    connectTimeoutMs,
  );
  /** @type {Awaited<ReturnType<typeof fetchThroughProxy>>} */
  let response;
  try {
    response = await fetchThroughProxy(url, { signal: controller.signal, env });
  } catch (error) {
    throw unreachable(error, url, env);
  } finally {
    clearTimeout(timer);
  }
  if (!response.ok || !response.body) {
    await response.body?.cancel();
    throw new SourceFailure(`${url} answered ${response.status} ${response.statusText}`.trim());
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
      `the download of ${url} was interrupted after ${done} bytes (${systemCode(error) ?? messageOf(error)})`,
    );
  } finally {
    bar.end();
  }
  if (total !== null && done !== total)
    throw new SourceFailure(`the download of ${url} ended at ${done} of ${total} bytes`);
}
