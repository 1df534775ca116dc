/** One request to the hub, with the token. */
import type { AcoerError } from '../base/errors';
import { fetchThroughProxy } from './proxy';
import { refusal } from './refusals';
import { ConnectionLost, type HubRequest, RangeRefused, reasonOf } from './retry';
import { SentBlob } from './sent-blob';

const RETRIED = new Set([408, 429, 500, 502, 503, 504]);

function lostTo({ headers, status }: Response): ConnectionLost {
  const seconds = Number(headers.get('retry-after') ?? NaN);
  if (!Number.isFinite(seconds)) return new ConnectionLost(`it answered ${status}`, null, { status });
  const wait = seconds > 0 ? ` and asks to wait ${seconds} s` : '';
  return new ConnectionLost(`it answered ${status}${wait}`, 1000 * seconds, { status });
}

/** What is sent, if it is more than a GET, and what a refusal of it means. */
export interface Sent {
  method?: string;
  body?: Blob;
  /** Follows no redirect: to be able to, `fetch` would keep all of a body in memory. */
  redirect?: 'error';
  refused?: (request: HubRequest, response: Response) => Promise<AcoerError>;
}

/** How much longer than an answer may be silent the server may take to use what it was sent, as a multiple. */
const SENT_SILENCES = 6;

/** The response as soon as its headers are there. */
async function headersOf(
  request: HubRequest,
  url: string,
  headers: Record<string, string>,
  { method, body, redirect }: Sent,
): Promise<Response> {
  const { settings } = request;
  const late = new AbortController();
  const limitMs = (body === undefined ? 1 : SENT_SILENCES) * settings.silenceMs;
  const timer = setTimeout(() => late.abort(new Error(`no answer in ${limitMs / 1000} s`)), limitMs);
  try {
    return await fetchThroughProxy(settings.proxy, url, {
      signal: request.signal ? AbortSignal.any([request.signal, late.signal]) : late.signal,
      headers,
      ...(method !== undefined && { method }),
      ...(redirect !== undefined && { redirect }),
      // While the connection takes bytes, it is not silent.
      ...(body !== undefined && { body: new SentBlob(body, () => timer.refresh()) }),
    });
  } catch (error) {
    request.signal?.throwIfAborted();
    throw new ConnectionLost(reasonOf(error), null, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/**
 * One attempt. Throws ConnectionLost when a retry may succeed, and HUB when the server refused. The token
 * goes only to the hub itself, never to a redirect target (`fetch` drops the header when the origin changes).
 */
export async function requestOnce(
  request: HubRequest,
  url: string,
  headers: Record<string, string>,
  sent: Sent = {},
): Promise<Response> {
  const { token, endpoint } = request.settings;
  const authorized = token !== null && new URL(url).origin === new URL(endpoint).origin;
  const own = {
    ...headers,
    // Compressed bytes could neither be counted nor resumed.
    'accept-encoding': 'identity',
    'user-agent': 'acoer',
    ...(authorized && { authorization: `Bearer ${token}` }),
  };
  const response = await headersOf(request, url, own, sent);
  if (response.ok) return response;
  if (RETRIED.has(response.status)) {
    await response.body?.cancel();
    throw lostTo(response);
  }
  if (response.status !== 416) throw await (sent.refused ?? refusal)(request, response);
  await response.body?.cancel();
  throw new RangeRefused();
}
