/**
 * The proxy named by the environment, as in src/hub/proxy.ts: set-up also runs before that file is compiled.
 */

/** @param {NodeJS.ProcessEnv} env @param {string} name */
function address(env, name) {
  const value = (env[name.toLowerCase()] ?? env[name] ?? '').trim();
  return value === '' || /^[a-z][a-z\d+.-]*:\/\//i.test(value) ? value : `http://${value}`;
}

/** @param {NodeJS.ProcessEnv} env */
function proxies(env) {
  const httpProxy = address(env, 'HTTP_PROXY');
  return { httpProxy, httpsProxy: address(env, 'HTTPS_PROXY') || httpProxy };
}

/**
 * `fetch` through HTTPS_PROXY or HTTP_PROXY, except for the hosts in NO_PROXY.
 * @param {string} url @param {{signal: AbortSignal, env: NodeJS.ProcessEnv}} options
 */
export async function fetchThroughProxy(url, { signal, env }) {
  const { EnvHttpProxyAgent, fetch } = await import('undici');
  const noProxy = env.no_proxy ?? env.NO_PROXY ?? '';
  return fetch(url, {
    signal,
    dispatcher: new EnvHttpProxyAgent({ ...proxies(env), noProxy, proxyTunnel: false }),
  });
}

/**
 * ` through the proxy http://proxy.example:3128`, without user and password, or '' if no proxy is set.
 * @param {string} url @param {NodeJS.ProcessEnv} env
 */
export function whichProxy(url, env) {
  const { httpProxy, httpsProxy } = proxies(env);
  const proxy = url.startsWith('https:') ? httpsProxy : httpProxy;
  return proxy === '' ? '' : ` through the proxy ${proxy.replace(/^([^/]*\/\/).*@/s, '$1')}`;
}
