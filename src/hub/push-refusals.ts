/** Why a push failed, as one sentence that says what to do. */
import type { AcoerError } from '../base/errors';
import { hubError } from '../base/errors';
import { repoText } from './names';
import { proxyAdvice } from './proxy';
import { hostOf, isPage, messageIn, notTheHub, Refusal } from './refusals';
import type { ConnectionLost, HubRequest } from './retry';

const tokenPage = ({ settings }: HubRequest): string => `${settings.endpoint}/settings/tokens`;

/** Why the server refused, and what to do. Where large files go is another host than the hub, without a word of its own. */
export async function pushRefusal(request: HubRequest, response: Response): Promise<AcoerError> {
  const { settings, repo, path } = request;
  const reason = response.headers.get('x-error-code');
  const { said, text } = await messageIn(response, request);
  const { status } = response;
  const host = hostOf(response, request);
  const because = said === '' ? '' : ` (${said})`;
  if (path === undefined && reason === null && isPage(response, text) && status !== 413) {
    return notTheHub(request, response, `${status} and an HTML page`);
  }
  const name = repoText(repo);
  const what = path === undefined ? name : `${path} of ${name}`;
  const sentence = ((): string => {
    if (status === 413) {
      return `${host} takes no request of the size of ${what} (413); raise the limit of the proxy or mirror that answered, go around it with NO_PROXY or HF_ENDPOINT, or push a smaller file (acoer export with another --dtype).`;
    }
    if (path !== undefined) {
      return `${host} refused ${what} (${status}${said && `: ${said}`}); the address that the hub gave for it may have expired: run the same command again.`;
    }
    if (status === 401) {
      return `${settings.endpoint} does not accept the current token (HF_TOKEN or the token file)${because}; create one that may write on ${tokenPage(request)}.`;
    }
    if (status === 403) {
      return `${settings.endpoint} does not let the current token write to ${name}${because}; create one that may on ${tokenPage(request)}, or push to a name of your own.`;
    }
    if (status === 409 || status === 412) {
      return `${name} was changed by someone else meanwhile${because}; nothing was committed: run the same command again.`;
    }
    if (status === 404) {
      return `${name} is not on ${settings.endpoint} for the current token${because}; check the name, or use a token that may write to it.`;
    }
    return `${settings.endpoint} answered ${status} to the push of ${name}${because}; nothing was committed.`;
  })();
  return new Refusal(sentence, status, reason);
}

/** A connection that stayed lost. What the hub has stored of large files it does not ask for again. */
export function pushLost(request: HubRequest, lost: ConnectionLost): AcoerError {
  const { settings, repo, path } = request;
  const what = path === undefined ? repoText(repo) : `${path} of ${repoText(repo)}`;
  const advice =
    lost.status === 429
      ? 'wait as long, or a few minutes'
      : lost.status !== null && lost.status >= 500
        ? 'the fault is at the server: try again later'
        : `check the network${proxyAdvice(settings.proxy, settings.endpoint)} or HF_ENDPOINT`;
  return hubError(
    `Cannot push ${what} to ${settings.endpoint} (${lost.message}); nothing was committed: ${advice}, and run the same command again.`,
    lost,
  );
}
