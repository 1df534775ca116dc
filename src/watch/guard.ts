/**
 * Which requests are answered. The page shows what a model wrote and where files are, so nobody but the person
 * who started the server may read it: not other users of the machine (the token), not a web page that makes a
 * name of its own lead here (the Host header), not one that sends requests here (Origin, Sec-Fetch-Site).
 */
import type { IncomingMessage } from 'node:http';
import { hostAllowed, hostRule, type HostRule, newSecret, sameSecret } from '../http';

export interface Guard {
  /** The first part of every address. */
  token: string;
  hosts: HostRule;
}

/** @param host given with --host; null: this machine only */
export const makeGuard = (host: string | null): Guard => ({ token: newSecret(), hosts: hostRule(host) });

/** Whether a browser says that another page asks. Following a link to the page itself is allowed. */
function fromElsewhere({ headers }: IncomingMessage, isPage: boolean): boolean {
  const { origin, host } = headers;
  if (origin !== undefined && origin !== `http://${host}`) return true;
  const site = headers['sec-fetch-site'];
  if (site === undefined || site === 'none' || site === 'same-origin') return false;
  const link = headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
  return !(isPage && link);
}

export interface Allowed {
  /** What follows the token and its slash; null: not even the slash. */
  path: string | null;
  query: URLSearchParams;
}

/** What is asked for, or the status to refuse it with. */
export function check(request: IncomingMessage, guard: Guard): Allowed | number {
  // Node takes the first of several and drops the rest.
  if ((request.headersDistinct.host?.length ?? 0) > 1) return 400;
  if (!hostAllowed(request.headers.host, guard.hosts)) return 403;
  if (request.method !== 'GET' && request.method !== 'HEAD') return 405;
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  if (encoding !== undefined || (length !== undefined && length !== '0')) return 400;
  // Nothing is decoded, so an address with a percent sign, a second slash or a NUL is no address of ours.
  const match = /^\/([\w-]+)(?:\/([a-z][a-z.-]*)?)?(?:\?([\w=&.,-]*))?$/.exec(request.url ?? '');
  const given = match?.[1] ?? '';
  if (!sameSecret(given, guard.token) || match === null) return 404;
  const slash = request.url!.charAt(1 + given.length) === '/';
  const path = slash ? (match[2] ?? '') : null;
  if (fromElsewhere(request, path === '' || path === null)) return 403;
  return { path, query: new URLSearchParams(match[3] ?? '') };
}

/** On every answer. The policy lets the page load its own script and styles and talk to this server only. */
export const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Cache-Control': 'no-store',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
} as const;
