/**
 * Requests through the proxy in HTTPS_PROXY or HTTP_PROXY, except to the hosts in NO_PROXY; lower-case names
 * work too. Node's own fetch supports these variables only from Node 24 on, and only on request.
 */
import type { EnvHttpProxyAgent } from 'undici';
import { hubError } from '../base/errors';

export interface ProxySettings {
  /** For https URLs: HTTPS_PROXY, else HTTP_PROXY; empty for none. */
  httpsProxy: string;
  /** For http URLs: HTTP_PROXY; empty for none. */
  httpProxy: string;
  /** NO_PROXY: host names, with their subdomains, separated by commas; `*` for all. */
  noProxy: string;
}

/** The name that is set (lower case first) and its value. */
function variable(env: NodeJS.ProcessEnv, name: string): { name: string; value: string } {
  const small = env[name.toLowerCase()];
  return small === undefined
    ? { name, value: env[name]?.trim() ?? '' }
    : { name: name.toLowerCase(), value: small.trim() };
}

/** The address without user and password, for messages. What is before the last @ may be a password with a slash. */
const withoutCredentials = (address: string): string =>
  address.replace(/^([a-z][a-z\d+.-]*:\/\/)?.*@/is, '$1');

function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false; // a bare %
  }
}

function readAddress(env: NodeJS.ProcessEnv, name: string): string {
  const { name: found, value } = variable(env, name);
  if (value === '') return '';
  const address = /^[a-z][a-z\d+.-]*:\/\//i.test(value) ? value : `http://${value}`;
  if (URL.canParse(address)) {
    const { protocol, username, password } = new URL(address);
    if (/^https?:$/.test(protocol) && isEncoded(username + password)) return address;
  }
  throw hubError(
    `${found} is ${withoutCredentials(value)}; it must be the address of an HTTP proxy such as http://proxy.example:3128, with % in a password written as %25.`,
  );
}

/** Throws HUB for an invalid proxy address. */
export function readProxySettings(env: NodeJS.ProcessEnv): ProxySettings {
  const httpProxy = readAddress(env, 'HTTP_PROXY');
  const httpsProxy = readAddress(env, 'HTTPS_PROXY') || httpProxy;
  return { httpProxy, httpsProxy, noProxy: variable(env, 'NO_PROXY').value };
}

/** For error messages: `, the proxy http://proxy.example:3128` if requests to `url` go through one. */
export function proxyAdvice({ httpProxy, httpsProxy }: ProxySettings, url: string): string {
  const proxy = new URL(url).protocol === 'https:' ? httpsProxy : httpProxy;
  return proxy === '' ? '' : `, the proxy ${withoutCredentials(proxy)}`;
}

const agents = new Map<string, EnvHttpProxyAgent>();

/** `fetch` through the proxy; redirects to other hosts are matched against NO_PROXY separately. */
export async function fetchThroughProxy(
  settings: ProxySettings,
  url: string,
  init: {
    signal: AbortSignal;
    headers: Record<string, string>;
    method?: string;
    body?: Blob | string;
    redirect?: 'error' | 'manual';
  },
): Promise<Response> {
  const { EnvHttpProxyAgent, fetch } = await import('undici');
  const key = JSON.stringify(settings);
  // Like curl: a tunnel for https, the full URL in the request line for http, where many proxies refuse a
  // tunnel.
  const dispatcher = agents.get(key) ?? new EnvHttpProxyAgent({ ...settings, proxyTunnel: false });
  agents.set(key, dispatcher);
  return fetch(url, { ...init, dispatcher });
}
