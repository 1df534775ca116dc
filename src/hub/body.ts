/** The bodies of responses, bounded in pace and size. */
import { errorMessage } from '../base/errors';
import { ConnectionLost, type HubRequest } from './retry';

/** A connection that brings less than this is as good as lost. */
const MIN_BYTES_PER_SECOND = 1024;

/** How many bytes must arrive in each `silenceMs` spent waiting for them. */
export const leastBytes = ({ settings }: HubRequest): number =>
  (MIN_BYTES_PER_SECOND * settings.silenceMs) / 1000;

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** The next chunk, or null if none came within `limitMs`. */
async function readWithin(
  reader: Reader,
  limitMs: number,
): Promise<Awaited<ReturnType<Reader['read']>> | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => (timer = setTimeout(resolve, limitMs, null)));
  try {
    return await Promise.race([reader.read(), late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * The chunks of the response. Only time spent waiting for the network counts, not what the caller does with a chunk.
 *
 * @throws ConnectionLost when it breaks off, or brings fewer than `leastBytes` in `silenceMs`
 */
export async function* chunksOf(response: Response, request: HubRequest): AsyncGenerator<Uint8Array> {
  if (response.body === null) return;
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const windowMs = request.settings.silenceMs;
  let leftMs = windowMs;
  let windowBytes = 0;
  try {
    for (;;) {
      const begun = performance.now();
      const read = await readWithin(reader, leftMs);
      if (read === null) {
        const arrived = windowBytes === 0 ? 'no data' : `only ${windowBytes} bytes`;
        throw new ConnectionLost(`${arrived} in ${windowMs / 1000} s`);
      }
      if (read.done) return;
      leftMs -= performance.now() - begun;
      windowBytes += read.value.length;
      if (windowBytes >= leastBytes(request)) {
        leftMs = windowMs;
        windowBytes = 0;
      }
      yield read.value;
    }
  } catch (error) {
    request.signal?.throwIfAborted();
    if (error instanceof ConnectionLost) throw error;
    throw new ConnectionLost(errorMessage(error), null, { cause: error });
  } finally {
    await reader.cancel().catch(() => undefined); // the connection may be broken already
  }
}

/**
 * The body as text, up to about `mostBytes` after decompression; `whole` says whether that was all of it. The rest is
 * never received. Throws ConnectionLost as `chunksOf` does, and after `limitMs` in all.
 */
export async function readText(
  response: Response,
  request: HubRequest,
  mostBytes: number,
  limitMs: number,
): Promise<{ text: string; whole: boolean }> {
  const begun = performance.now();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunksOf(response, request)) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > mostBytes) break;
    if (performance.now() - begun > limitMs)
      throw new ConnectionLost(`not complete after ${limitMs / 1000} s`);
  }
  return { text: Buffer.concat(chunks).toString('utf8'), whole: bytes <= mostBytes };
}
