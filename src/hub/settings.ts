/** Settings of the hub from the environment variables that the Python tools use. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { errorCode, hubError, whyUnreadable } from '../base/errors';
import { readTextSync } from '../base/regular-file';
import { readProxySettings, type ProxySettings } from './proxy';

export interface HubSettings {
  /** HF_ENDPOINT without a trailing slash; default https://huggingface.co. */
  endpoint: string;
  /** HF_HUB_CACHE, else `hub` in HF_HOME, else ~/.cache/huggingface/hub. */
  cacheDirectory: string;
  /** HF_TOKEN, else the token file that `hf auth login` writes (HF_TOKEN_PATH, else `token` in HF_HOME). */
  token: string | null;
  /** HF_HUB_OFFLINE: do not use the network. */
  offline: boolean;
  /** HF_HUB_DOWNLOAD_TIMEOUT (seconds): a connection that is silent for longer counts as lost. */
  silenceMs: number;
  proxy: ProxySettings;
}

const DEFAULT_ENDPOINT = 'https://huggingface.co';
const DEFAULT_SILENCE_SECONDS = 10;

const isTrue = (text: string | undefined): boolean => /^(1|ON|YES|TRUE)$/i.test(text ?? '');

const isSet = (text: string | undefined): text is string => text !== undefined && text !== '';

/** In containers a user may have neither HOME nor an entry in /etc/passwd. */
function homeFolder(): string {
  try {
    return homedir();
  } catch (cause) {
    throw hubError(
      'There is no home folder for the Hugging Face cache: this user has no HOME and no passwd entry; set HF_HOME to a folder.',
      cause,
    );
  }
}

/** Expands `~`, $NAME and ${NAME} as the Python tools do. */
function expandPath(path: string, env: NodeJS.ProcessEnv): string {
  const home = path.replace(/^~(?=\/|$)/, () => homeFolder());
  return resolve(
    home.replace(
      /\$(?:(\w+)|\{(\w+)\})/g,
      (whole, plain?: string, braced?: string) => env[plain ?? braced!] ?? whole,
    ),
  );
}

function readToken(env: NodeJS.ProcessEnv): string | null {
  const named = [env.HF_TOKEN, env.HUGGING_FACE_HUB_TOKEN].find(isSet)?.trim();
  const token = isSet(named)
    ? named
    : readTokenFile(
        isSet(env.HF_TOKEN_PATH) ? expandPath(env.HF_TOKEN_PATH, env) : join(hubHome(env), 'token'),
      );
  if (token !== null && !/^[\x21-\x7e]+$/.test(token)) {
    throw hubError(
      'The Hugging Face token contains a space or another character that no token has; set HF_TOKEN again.',
    );
  }
  return token;
}

/** A token has some forty characters. */
const MAX_TOKEN_BYTES = 1 << 16;

function readTokenFile(path: string): string | null {
  try {
    const text = readTextSync(path, MAX_TOKEN_BYTES).trim();
    return text === '' ? null : text;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null;
    throw hubError(`Cannot read the token file ${path}: ${whyUnreadable(error)}`, error);
  }
}

function readEndpoint(env: NodeJS.ProcessEnv): string {
  const endpoint = (isSet(env.HF_ENDPOINT) ? env.HF_ENDPOINT.trim() : DEFAULT_ENDPOINT).replace(/\/+$/, '');
  if (endpoint.includes('@')) {
    throw hubError(
      'HF_ENDPOINT contains a user name or password (an @), not shown here; give the address alone, and a token in HF_TOKEN.',
    );
  }
  const isAddress = URL.canParse(endpoint) && /^https?:$/.test(new URL(endpoint).protocol);
  if (isAddress && !/[?#]/.test(endpoint)) return endpoint;
  throw hubError(
    `HF_ENDPOINT is ${endpoint.replace(/[?#].*$/s, '...')}; it must be an address such as ${DEFAULT_ENDPOINT}.`,
  );
}

function readSilence(env: NodeJS.ProcessEnv): number {
  const seconds = isSet(env.HF_HUB_DOWNLOAD_TIMEOUT)
    ? Number(env.HF_HUB_DOWNLOAD_TIMEOUT)
    : DEFAULT_SILENCE_SECONDS;
  if (seconds > 0 && seconds < 1e6) return 1000 * seconds;
  throw hubError(
    `HF_HUB_DOWNLOAD_TIMEOUT is ${env.HF_HUB_DOWNLOAD_TIMEOUT}; it must be a number of seconds above 0.`,
  );
}

/** HF_HOME, else `huggingface` in XDG_CACHE_HOME, else ~/.cache/huggingface. */
function hubHome(env: NodeJS.ProcessEnv): string {
  const { HF_HOME: named, XDG_CACHE_HOME: cache } = env;
  return expandPath(isSet(named) ? named : join(isSet(cache) ? cache : '~/.cache', 'huggingface'), env);
}

/** Reads the environment on each call. Throws HUB for an invalid value. */
export function readHubSettings(env: NodeJS.ProcessEnv = process.env): HubSettings {
  const named = [env.HF_HUB_CACHE, env.HUGGINGFACE_HUB_CACHE].find(isSet);
  return {
    endpoint: readEndpoint(env),
    cacheDirectory: named === undefined ? join(hubHome(env), 'hub') : expandPath(named, env),
    token: readToken(env),
    offline: isTrue(env.HF_HUB_OFFLINE) || isTrue(env.TRANSFORMERS_OFFLINE),
    silenceMs: readSilence(env),
    proxy: readProxySettings(env),
  };
}
