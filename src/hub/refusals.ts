/** What a server said instead of giving what was asked for, as one sentence that says what to do. */
import { AcoerError, hubError } from '../base/errors';
import { isRecord, parsedJson } from '../base/json';
import { printableLine } from '../base/printable';
import { readText } from './body';
import { repoPage, repoText } from './names';
import { ConnectionLost, type HubRequest } from './retry';

/** Longest error message read from a server, in bytes and as long as it is waited for. */
const MAX_ERROR_BYTES = 65_536;
const MAX_SAID = 200;

/** The server's refusal, with what a caller may want to know of it. */
export class Refusal extends AcoerError {
  constructor(
    message: string,
    readonly status: number,
    /** The hub's own word for the reason, such as RepoNotFound; null: it gave none. */
    readonly reason: string | null,
  ) {
    super('HUB', message);
  }
}

function accessAdvice({ settings, repo }: HubRequest): string {
  const page = repoPage(settings.endpoint, repo);
  return settings.token === null
    ? `ask for access on ${page}, then set HF_TOKEN or run: hf auth login`
    : `ask for access on ${page} with the account of the current token (HF_TOKEN or the token file)`;
}

/** The host that answered, which a redirect may have changed. */
export const hostOf = (response: Response, { settings }: HubRequest): string =>
  new URL(response.url === '' ? settings.endpoint : response.url).host;

export const isPage = (response: Response, text: string): boolean =>
  /^text\/html\b/i.test(response.headers.get('content-type') ?? '') || /^\s*</.test(text);

/** `an HTML page`, or `text that is not JSON ("Forbidden")`. */
export const bodyText = (response: Response, text: string): string =>
  isPage(response, text)
    ? 'an HTML page'
    : `text that is not JSON (${JSON.stringify(printableLine(text, 60))})`;

/** Something answered that does not speak the hub's protocol: a login page, a proxy, another server. */
export function notTheHub(request: HubRequest, response: Response, got: string): AcoerError {
  return hubError(
    `${hostOf(response, request)} answered the request for ${request.path ?? repoText(request.repo)} with ${got}, which is no answer of a Hugging Face hub; ` +
      'if this network has a login page or a proxy, log in or set HTTPS_PROXY, otherwise check HF_ENDPOINT, and run the same command again.',
  );
}

/** The message in a refusal, and the body it was in. */
export async function messageIn(
  response: Response,
  request: HubRequest,
): Promise<{ said: string; text: string }> {
  const header = response.headers.get('x-error-message');
  const body = readText(response, request, MAX_ERROR_BYTES, request.settings.silenceMs);
  const { text } = await body.catch((error: unknown) => {
    if (error instanceof ConnectionLost) return { text: '' }; // the status says enough
    throw error;
  });
  return { said: (header ?? errorField(text)).trim().slice(0, MAX_SAID), text };
}

function errorField(text: string): string {
  const json = parsedJson(text);
  return isRecord(json) && typeof json.error === 'string' ? json.error : '';
}

/** Why the server refused, and what to do. */
export async function refusal(request: HubRequest, response: Response): Promise<AcoerError> {
  const { settings, repo, path } = request;
  const code = response.headers.get('x-error-code');
  const { said, text } = await messageIn(response, request);
  const { status } = response;
  if (code === null && isPage(response, text))
    return notTheHub(request, response, `${status} and an HTML page`);
  const name = repoText(repo);
  const hub = settings.endpoint;
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
  return new Refusal(sentence, status, code);
}
