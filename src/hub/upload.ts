/**
 * The `fetch` with which `@huggingface/hub` pushes: our proxies, token, time limits, retries and checks of what the
 * server answers, and our sentences for what it refuses.
 */
import { hubError } from '../base/errors';
import { accepted, readAnswer } from './answers';
import { readText } from './body';
import { pushLost, pushRefusal } from './push-refusals';
import { requestOnce, type Sent } from './request';
import { ConnectionLost, type HubRequest, withRetries } from './retry';
import { pushAnswers } from './schemas';

/** What is sent in the commit itself is in memory at once, with a third more as base64. */
const MAX_REGULAR_BYTES = 1 << 26;
const MAX_STORAGE_ANSWER_BYTES = 1 << 16;

type Step = keyof typeof pushAnswers | 'branch' | 'upload';

const STEPS: readonly [Step, RegExp][] = [
  ['create', /\/api\/repos\/create$/],
  ['preupload', /\/preupload\/[^/]+$/],
  ['batch', /\.git\/info\/lfs\/objects\/batch$/],
  ['branch', /\/branch\/[^/]+$/],
  ['commit', /\/commit\/[^/]+$/],
];

/** All others are addresses that the hub gave for an upload. */
function stepOf(endpoint: string, url: string): Step {
  const { pathname } = new URL(url);
  const step = STEPS.find(([, pattern]) => pattern.test(pathname))?.[0];
  return step !== undefined && url.startsWith(`${endpoint}/`) ? step : 'upload';
}

export interface FileSize {
  path: string;
  bytes: number;
}

/** Every file must have an answer, and a large one that it is sent apart. @throws HUB */
function checkModes({ settings }: HubRequest, files: readonly FileSize[], answer: unknown): void {
  const asked = (answer as { files: { path: string; uploadMode: string }[] }).files;
  const modes = new Map(asked.map(({ path, uploadMode }) => [path, uploadMode]));
  const wrong = files.find(
    ({ path, bytes }) => !modes.has(path) || (modes.get(path) === 'regular' && bytes > MAX_REGULAR_BYTES),
  );
  if (wrong === undefined) return;
  throw hubError(
    `${settings.endpoint} does not say how to send ${wrong.path} (${wrong.bytes} bytes) apart from the commit; check that HF_ENDPOINT is a Hugging Face hub.`,
  );
}

interface Batch {
  objects: {
    oid: string;
    actions?: { upload?: { href: string; header?: Record<string, string> | null } | null } | null;
    error?: { code: number; message: string } | null;
  }[];
}

/** Which file goes to each address, for messages; files are told apart by their sizes. @throws HUB for one not taken */
function placesOf(
  { settings }: HubRequest,
  files: readonly FileSize[],
  asked: string,
  answer: unknown,
): [address: string, path: string][] {
  const { objects } = JSON.parse(asked) as { objects: { oid: string; size: number }[] };
  return (answer as Batch).objects.flatMap(({ oid, actions, error }) => {
    const bytes = objects.find((object) => object.oid === oid)?.size;
    const path = files.find((file) => file.bytes === bytes)?.path ?? 'a file';
    if (error) {
      throw hubError(`${settings.endpoint} does not take ${path} (${error.code}: ${error.message}).`);
    }
    const { href, header } = actions?.upload ?? {};
    const parts = Object.entries(header ?? {}).filter(([name]) => /^\d+$/.test(name));
    return [href, ...parts.map(([, address]) => address)].flatMap((address): [string, string][] =>
      address === undefined ? [] : [[address, path]],
    );
  });
}

/**
 * A `fetch` that resolves to good answers only. It throws HUB, what the signal aborts with, and ConnectionLost for a
 * commit of which nobody knows whether it was made.
 * @param files what is pushed
 */
export function pushFetch(request: HubRequest, files: readonly FileSize[]): typeof fetch {
  const { settings } = request;
  const places = new Map<string, string>();

  /** What the package needs of the answer. */
  async function checked(own: HubRequest, step: Step, response: Response, body: unknown): Promise<Response> {
    if (step === 'upload' || step === 'branch') {
      // Of use is only the tag of a part.
      await readText(response, own, MAX_STORAGE_ANSWER_BYTES, settings.silenceMs);
      const tag = response.headers.get('etag');
      return new Response(null, { status: 200, headers: tag === null ? {} : { etag: tag } });
    }
    const answer = await readAnswer(own, response);
    const value: unknown = accepted<unknown>(own, answer, pushAnswers[step], answer.value);
    if (step === 'preupload') checkModes(own, files, value);
    if (step === 'batch') {
      for (const [address, path] of placesOf(own, files, body as string, value)) places.set(address, path);
    }
    return Response.json(value);
  }

  return async (input, { method = 'GET', headers, body, signal } = {}) => {
    const url = input instanceof Request ? input.url : String(input);
    const step = stepOf(settings.endpoint, url);
    const signals = [request.signal, signal].filter((one) => one instanceof AbortSignal);
    const own: HubRequest = {
      ...request,
      ...(signals.length > 0 && { signal: AbortSignal.any(signals) }),
      // A signed address together with a token is refused by object stores.
      ...(step === 'upload' && {
        settings: { ...settings, token: null },
        path: places.get(url) ?? 'a file',
      }),
    };
    const given = new Headers(headers);
    given.delete('authorization');
    const blob = typeof body === 'string' ? new Blob([body]) : body instanceof Blob ? body : undefined;
    const sent: Sent = {
      ...{ method, refused: pushRefusal },
      ...(blob !== undefined && { body: blob }),
      ...(step === 'upload' && { redirect: 'error' }),
    };
    const attempt = async () => {
      const response = await requestOnce(own, url, Object.fromEntries(given), sent);
      return checked(own, step, response, body);
    };
    if (step === 'commit') return attempt();
    try {
      return await withRetries(own, attempt);
    } catch (error) {
      throw error instanceof ConnectionLost ? pushLost(own, error) : error;
    }
  };
}
