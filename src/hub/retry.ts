/** Lost connections: what they are, how long to wait before another attempt, and when to give up. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AcoerError } from '../base/errors';
import { errorCode, errorMessage, hubError } from '../base/errors';
import { repoText, type Repo } from './names';
import { proxyAdvice } from './proxy';
import type { HubSettings } from './settings';

export interface HubRequest {
  settings: HubSettings;
  repo: Repo;
  /** The requested file of the repository, if any. */
  path?: string;
  signal?: AbortSignal;
}

/** A request is given up after this many failures in a row with hardly a byte between them. */
const ATTEMPTS = 5;
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 30_000;

/** The connection failed or the server has a problem; the request itself may be fine, so retry. */
export class ConnectionLost extends Error {
  /** Of the server's answer; null: there was none. */
  readonly status: number | null;

  constructor(
    message: string,
    readonly retryAfterMs: number | null = null,
    { status = null, ...options }: { cause?: unknown; status?: number | null } = {},
  ) {
    super(message, options);
    this.name = 'ConnectionLost';
    this.status = status;
  }
}

/** The server has no bytes after the end of the partial file (status 416). */
export class RangeRefused extends Error {}

/**
 * Waits before attempt `failures + 1`: 0.25 s, doubled each time, or as long as the server asks. Throws `lost` when
 * the attempts are used up or the server asks for more than half a minute.
 */
export async function waitBeforeRetry(
  failures: number,
  lost: ConnectionLost,
  signal?: AbortSignal,
): Promise<void> {
  const waitMs = lost.retryAfterMs ?? FIRST_WAIT_MS * 2 ** (failures - 1);
  if (failures >= ATTEMPTS || waitMs > LONGEST_WAIT_MS) throw lost;
  await sleep(waitMs, undefined, { signal });
}

/** Runs `attempt` until it succeeds, fails permanently, or has lost the connection too often. */
export async function withRetries<T>(request: HubRequest, attempt: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
      await waitBeforeRetry(failures, error, request.signal);
    }
  }
}

function proxyAnswered(status: string): string {
  const advice = status === '407' ? '; put user:password@ before its host name' : '';
  return `the proxy answered ${status}${advice}`;
}

/** The innermost message, since `fetch failed` alone says nothing. */
export function reasonOf(error: unknown): string {
  let inner = error as { cause?: unknown };
  while (typeof inner.cause === 'object' && inner.cause !== null) inner = inner.cause;
  const message = errorMessage(inner);
  const proxyStatus = /^Proxy (?:response|Authentication Required) \((\d+)\)/.exec(message)?.[1];
  if (proxyStatus !== undefined) return proxyAnswered(proxyStatus);
  return message === '' ? (errorCode(inner) ?? 'no reason given') : message;
}

/** A lost connection as a message for the user. */
export function unreachable(request: HubRequest, lost: ConnectionLost, kept: string): AcoerError {
  const { settings, repo, path } = request;
  const what = path === undefined ? repoText(repo) : `${path} of ${repoText(repo)}`;
  return hubError(
    `Cannot fetch ${what} from ${settings.endpoint} (${lost.message}); ${kept}check the network${proxyAdvice(settings.proxy, settings.endpoint)} or HF_ENDPOINT and run the same command again.`,
    lost,
  );
}
