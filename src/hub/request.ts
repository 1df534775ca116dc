/** One request to the hub, with the token. */
import { fetchThroughProxy } from './proxy';
import { refusal } from './refusals';
import { ConnectionLost, type HubRequest, RangeRefused, reasonOf } from './retry';

const RETRIED = new Set([408, 429, 500, 502, 503, 504]);

function lostTo(response: Response): ConnectionLost {
  const seconds = Number(response.headers.get('retry-after') ?? NaN);
  if (!Number.isFinite(seconds)) return new ConnectionLost(`it answered ${response.status}`);
  const wait = seconds > 0 ? ` and asks to wait ${seconds} s` : '';
  return new ConnectionLost(`it answered ${response.status}${wait}`, 1000 * seconds);
}

/** The response as soon as its headers are there. */
async function headersOf(
  request: HubRequest,
  url: string,
  headers: Record<string, string>,
): Promise<Response> {
  const { settings } = request;
  const late = new AbortController();
  const seconds = settings.silenceMs / 1000;
  const timer = setTimeout(() => late.abort(new Error(`no answer in ${seconds} s`)), settings.silenceMs);
  try {
    return await fetchThroughProxy(settings.proxy, url, {
      signal: request.signal ? AbortSignal.any([request.signal, late.signal]) : late.signal,
      headers,
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
): Promise<Response> {
  const { token, endpoint } = request.settings;
  const authorized = token !== null && new URL(url).origin === new URL(endpoint).origin;
  const response = await headersOf(request, url, {
    ...headers,
    // Compressed bytes could neither be counted nor resumed.
    'accept-encoding': 'identity',
    'user-agent': 'acoer',
    ...(authorized && { authorization: `Bearer ${token}` }),
  });
  if (response.ok) return response;
  if (RETRIED.has(response.status)) {
    await response.body?.cancel();
    throw lostTo(response);
  }
  if (response.status !== 416) throw await refusal(request, response);
  await response.body?.cancel();
  throw new RangeRefused();
}
