/** Requests to the hub: the token, retries, and every refusal as one sentence. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AcoerError, errorCode, errorMessage } from '../errors';
import { repoPage, repoText, type Repo } from './names';
import { fetchThroughProxy, proxyAdvice } from './proxy';
import type { HubSettings } from './settings';

/** A download is given up after this many failures in a row without a byte between them. */
export const ATTEMPTS = 5;
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 30_000;

/** The connection failed or the server has a problem; the request itself may be fine, so retry. */
export class ConnectionLost extends Error {
  constructor(
    message: string,
    readonly retryAfterMs: number | null = null,
    options?: { cause?: unknown },
  ) {
    super(message, options);
    this.name = 'ConnectionLost';
  }
}

/** Waits before attempt `failures + 1`: 0.25 s, doubled each time, or as long as the server asks. */
export async function waitBeforeRetry(
  failures: number,
  lost: ConnectionLost,
  signal?: AbortSignal,
): Promise<void> {
  const wait = lost.retryAfterMs ?? FIRST_WAIT_MS * 2 ** (failures - 1);
  await sleep(Math.min(wait, LONGEST_WAIT_MS), undefined, { signal });
}

function proxyAnswered(status: string): string {
  const advice = status === '407' ? '; put user:password@ before its host name' : '';
  return `the proxy answered ${status}${advice}`;
}

/** The innermost message, since `fetch failed` alone says nothing. */
function reasonOf(error: unknown): string {
  let inner = error as { cause?: unknown };
  while (typeof inner.cause === 'object' && inner.cause !== null) inner = inner.cause;
  const message = errorMessage(inner);
  const proxyStatus = /^Proxy (?:response|Authentication Required) \((\d+)\)/.exec(message)?.[1];
  if (proxyStatus !== undefined) return proxyAnswered(proxyStatus);
  return message === '' ? (errorCode(inner) ?? 'no reason given') : message;
}

function retryAfter(response: Response): number | null {
  const seconds = Number(response.headers.get('retry-after') ?? NaN);
  return Number.isFinite(seconds) ? 1000 * seconds : null;
}

const RETRIED = new Set([408, 429, 500, 502, 503, 504]);

export interface HubRequest {
  settings: HubSettings;
  repo: Repo;
  /** The requested file of the repository, if any. */
  path?: string;
  signal?: AbortSignal;
}

function accessAdvice({ settings, repo }: HubRequest): string {
  const page = repoPage(settings.endpoint, repo);
  return settings.token === null
    ? `ask for access on ${page}, then set HF_TOKEN or run: hf auth login`
    : `ask for access on ${page} with the account of the current token (HF_TOKEN or the token file)`;
}

/** Why the server refused, and what to do, as one sentence. */
async function refusal(request: HubRequest, response: Response): Promise<AcoerError> {
  const { settings, repo, path } = request;
  const code = response.headers.get('x-error-code');
  const said = (response.headers.get('x-error-message') ?? (await shortBody(response))).trim();
  const name = repoText(repo);
  const hub = settings.endpoint;
  const { status } = response;
  const sentence = ((): string => {
    if (code === 'GatedRepo') return `${name} is gated: ${accessAdvice(request)}.`;
    if (code === 'RevisionNotFound') {
      return `${repo.type} ${repo.id} has no revision "${repo.revision}"; name a branch, tag or commit listed on ${repoPage(hub, repo)}/tree/main.`;
    }
    if (code === 'EntryNotFound' || (status === 404 && path !== undefined)) {
      return `${name} has no file ${path ?? ''}; see its files on ${repoPage(hub, repo)}/tree/${repo.revision}.`;
    }
    if (status === 401 && settings.token !== null && /credential|token|username/i.test(said)) {
      return `${hub} does not accept the current token (HF_TOKEN or the token file); create a new one on ${hub}/settings/tokens.`;
    }
    if (code === 'RepoNotFound' || status === 401 || status === 404) {
      const advice =
        settings.token === null ? 'set HF_TOKEN or run: hf auth login' : 'use a token that can read it';
      return `${name} is not on ${hub}; check the name, or if it is private, ${advice}.`;
    }
    if (status === 403)
      return `${hub} refuses access to ${name}${said && ` (${said})`}: ${accessAdvice(request)}.`;
    return `${hub} answered ${status} to the request for ${path ?? name}${said && ` (${said})`}; try again later or set HF_ENDPOINT to a mirror.`;
  })();
  return new AcoerError('HUB', sentence);
}

async function shortBody(response: Response): Promise<string> {
  const text = await response.text().catch(() => '');
  const json = /^\s*\{/.test(text) ? (JSON.parse(text) as { error?: unknown }) : {};
  return typeof json.error === 'string' ? json.error.slice(0, 200) : '';
}

/**
 * One attempt. Throws ConnectionLost when a retry may succeed, and HUB when the server refused. The token
 * goes only to the hub itself, never to a redirect target (`fetch` drops the header when the origin changes).
 */
export async function requestOnce(
  request: HubRequest,
  url: string,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<Response> {
  const { settings } = request;
  const authorized = settings.token !== null && new URL(url).origin === new URL(settings.endpoint).origin;
  let response: Response;
  try {
    response = await fetchThroughProxy(settings.proxy, url, {
      signal,
      headers: {
        ...headers,
        'user-agent': 'acoer',
        ...(authorized && { authorization: `Bearer ${settings.token}` }),
      },
    });
  } catch (error) {
    request.signal?.throwIfAborted();
    throw new ConnectionLost(reasonOf(error), null, { cause: error });
  }
  if (response.ok) return response;
  if (RETRIED.has(response.status)) {
    await response.body?.cancel();
    throw new ConnectionLost(`it answered ${response.status}`, retryAfter(response));
  }
  throw response.status === 416 ? new RangeRefused() : await refusal(request, response);
}

/** The server has no bytes after the end of the partial file (status 416). */
export class RangeRefused extends Error {}

/** Runs `attempt` until it succeeds, fails permanently, or has lost the connection `ATTEMPTS` times. */
async function withRetries<T>(request: HubRequest, attempt: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof ConnectionLost) || failures >= ATTEMPTS) throw error;
      await waitBeforeRetry(failures, error, request.signal);
    }
  }
}

/**
 * A `fetch` for calls of the hub package, whose responses are small and read completely before they are
 * returned.
 */
export function hubFetch(request: HubRequest): typeof fetch {
  return (input, init) =>
    withRetries(request, async () => {
      const silence = AbortSignal.timeout(request.settings.silenceMs);
      const signal = request.signal ? AbortSignal.any([request.signal, silence]) : silence;
      const url = input instanceof Request ? input.url : String(input);
      const headers = Object.fromEntries(new Headers(init?.headers).entries());
      const response = await requestOnce(request, url, headers, signal);
      try {
        const body = await response.arrayBuffer();
        return new Response(body, { status: response.status, headers: response.headers });
      } catch (error) {
        request.signal?.throwIfAborted();
        throw new ConnectionLost(reasonOf(error), null, { cause: error });
      }
    });
}

/** A lost connection as a message for the user. */
export function unreachable(request: HubRequest, lost: ConnectionLost, kept: string): AcoerError {
  const { settings, repo, path } = request;
  const what = path === undefined ? repoText(repo) : `${path} of ${repoText(repo)}`;
  return new AcoerError(
    'HUB',
    `Cannot fetch ${what} from ${settings.endpoint} (${lost.message}); ${kept}check the network${proxyAdvice(settings.proxy, settings.endpoint)} or HF_ENDPOINT and run the same command again.`,
    { cause: lost },
  );
}
