/** Whose requests a server of this machine answers: a web page may make a name of its own lead here. */
import { isIP, isIPv6 } from 'node:net';
import { hostname } from 'node:os';

export interface HostRule {
  /** Names allowed in the Host header, in lower case. */
  names: ReadonlySet<string>;
  /** Any IP address is allowed there, too: the server listens for other machines. */
  addresses: boolean;
}

const LOCAL = ['localhost', '127.0.0.1', '::1'];

export const LOOPBACK = '127.0.0.1';

/** @param host given with --host; null: this machine only */
export function hostRule(host: string | null): HostRule {
  const names = host === null ? LOCAL : [...LOCAL, host.toLowerCase(), hostname().toLowerCase()];
  return { names: new Set(names), addresses: host !== null };
}

/** The name in a Host header, without its port, which differs when a connection is forwarded. */
function hostName(header: string): string | null {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9_.-]+))(?::\d{1,5})?$/.exec(header.toLowerCase());
  return match === null ? null : (match[1] ?? match[2]!);
}

export function hostAllowed(header: string | undefined, { names, addresses }: HostRule): boolean {
  const name = header === undefined ? null : hostName(header);
  return name !== null && (names.has(name) || (addresses && isIP(name) !== 0));
}

/** Whether only programs on this machine reach a server that listens there. */
export const isLoopback = (host: string): boolean =>
  LOCAL.includes(host.toLowerCase()) || host.startsWith('127.');

/** A host as part of an address; `0.0.0.0` and `::` are every interface of this machine. */
export function hostInAddress(host: string): string {
  if (host === '0.0.0.0' || host === '::') return hostname();
  return isIPv6(host) ? `[${host}]` : host;
}
