/** Bodies in JSON: of a request, checked before it is believed, and of an answer. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ApiError } from './errors';

export const MOST_BODY_BYTES = 4 * 1024 * 1024;

const tooLarge = () => new ApiError(413, `The body is larger than ${MOST_BODY_BYTES} bytes.`);

/** @throws ApiError for one that is too large or not JSON; whoever cuts it off gets no answer */
export async function readJsonBody(request: IncomingMessage): Promise<unknown> {
  const { 'content-length': length, 'content-encoding': encoding } = request.headers;
  if (encoding !== undefined && encoding !== 'identity')
    throw new ApiError(415, `The body is compressed (${encoding.slice(0, 40)}); send it as it is.`);
  if (Number(length ?? 0) > MOST_BODY_BYTES) throw tooLarge();
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > MOST_BODY_BYTES) throw tooLarge();
    parts.push(part);
  }
  const text = new TextDecoder('utf-8', { fatal: true });
  try {
    return JSON.parse(text.decode(Buffer.concat(parts)));
  } catch {
    throw new ApiError(400, 'The body is not JSON in UTF-8.');
  }
}

export function sendJson(response: ServerResponse, status: number, body: object, headers: object = {}): void {
  const own = { 'Content-Type': 'application/json; charset=utf-8', 'Cache-Control': 'no-store' };
  response.writeHead(status, { ...own, ...headers });
  response.end(JSON.stringify(body));
}
