/** One server: its requests, and what is wrong when one fails. */
import type { Agent } from 'undici';
import { reasonOf } from '../../hub/retry';
import { parsedJson } from '../../base/json';
import { readModels, refusalText, type ServedModel } from './wire';

/**
 * - passing: no answer, or an error of the server's; the same request may succeed, here later or elsewhere
 * - busy: the server asks to come back later
 * - adapter: it does not know the adapter that was asked for
 * - wrong: an answer that cannot be used
 * - refused: the request itself is refused, and would be again
 */
export type FaultKind = 'passing' | 'busy' | 'adapter' | 'wrong' | 'refused';

export class ServerFault extends Error {
  constructor(
    readonly kind: FaultKind,
    message: string,
    /** When the server wants to be asked again. */
    readonly retryAfterMs: number | null = null,
    options?: { cause?: unknown },
  ) {
    super(message, options);
    this.name = 'ServerFault';
  }
}

const CONNECT_MS = 10_000;
const ADMIN_MS = 30_000;
/** Ids, log-probs and the text of a token take about 60 bytes; a million tokens fit. */
const MOST_BYTES = 256 * 2 ** 20;
const LONGEST_RETRY_MS = 60_000;

interface Call {
  method: 'GET' | 'POST';
  path: string;
  body?: object;
  /** How long the answer may take. */
  limitMs: number;
  signal?: AbortSignal | undefined;
}

interface Reply {
  status: number;
  text: string;
  retryAfterMs: number | null;
}

/** A server's address without the `/v1` that clients of OpenAI's API put at its end. */
export const serverAddress = (url: string): string => url.replace(/\/+$/, '').replace(/\/v1$/, '');

export class Server {
  /** Without a slash at the end. */
  readonly address: string;
  private agent: Agent | null = null;

  constructor(
    url: string,
    private readonly key: string | null,
    private readonly connections: number,
  ) {
    this.address = serverAddress(url);
  }

  /** @throws ServerFault, or the signal's reason */
  async models(signal?: AbortSignal): Promise<ServedModel> {
    const { text } = await this.need({ method: 'GET', path: '/v1/models', limitMs: ADMIN_MS, signal });
    const found = readModels(parsedJson(text));
    if (found !== null) return found;
    throw new ServerFault('refused', 'its /v1/models lists no model: is it a server of vLLM?');
  }

  /** Loads the adapter in `folder`, or finds it loaded. @throws ServerFault, or the signal's reason */
  async load(name: string, folder: string, signal?: AbortSignal): Promise<void> {
    const body = { lora_name: name, lora_path: folder };
    const path = '/v1/load_lora_adapter';
    const reply = await this.ask({ method: 'POST', path, body, limitMs: ADMIN_MS, signal });
    if (reply.status < 300) return;
    const why = refusalText(reply.text);
    // The answer to an earlier attempt was lost. No other process makes this name.
    if (reply.status === 400 && /already been loaded|is there already/.test(why)) return;
    if (reply.status === 405 || (reply.status === 404 && /^Not Found$|fixed here/i.test(why)))
      throw new ServerFault(
        'refused',
        'it takes no adapters while it runs: start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, acoer serve with --allow-lora-updates',
      );
    // A shared file system may show a new folder late.
    if (reply.status === 404 || /No such file/.test(why))
      throw new ServerFault('passing', `it does not find ${folder}, which must be where it sees it (${why})`);
    throw this.faultOf(reply);
  }

  async unload(name: string, signal?: AbortSignal): Promise<void> {
    const body = { lora_name: name };
    await this.ask({ method: 'POST', path: '/v1/unload_lora_adapter', body, limitMs: ADMIN_MS, signal });
  }

  /** The answer of `/v1/completions`, not checked. @throws ServerFault, or the signal's reason */
  async complete(body: object, limitMs: number, signal?: AbortSignal): Promise<unknown> {
    const { text } = await this.need({ method: 'POST', path: '/v1/completions', body, limitMs, signal });
    const answer = parsedJson(text);
    if (answer === null) throw new ServerFault('wrong', 'its answer is not JSON');
    return answer;
  }

  /** Ends all connections; requests in flight are cut off. */
  async close(): Promise<void> {
    const { agent } = this;
    this.agent = null;
    await agent?.destroy();
  }

  private async need(call: Call): Promise<Reply> {
    const reply = await this.ask(call);
    if (reply.status < 300) return reply;
    throw this.faultOf(reply);
  }

  private faultOf({ status, text, retryAfterMs }: Reply): ServerFault {
    const why = refusalText(text);
    const said = why === '' ? `it answered ${status}` : `it answered ${status}: ${why}`;
    if (status === 429) return new ServerFault('busy', said, retryAfterMs);
    if (status >= 500 || status === 408) return new ServerFault('passing', said, retryAfterMs);
    if (status === 404 && /does not exist|There is no model/i.test(why))
      return new ServerFault('adapter', said);
    if (status === 401 || status === 403)
      return new ServerFault(
        'refused',
        `${said}; its key goes into the environment variable ACOER_SAMPLER_KEY`,
      );
    return new ServerFault('refused', said);
  }

  private async dispatcher(): Promise<Agent> {
    if (this.agent !== null) return this.agent;
    const { Agent: Connections } = await import('undici');
    // An answer may take as long as its tokens do: the limit of the whole call is ours.
    this.agent ??= new Connections({
      connections: this.connections,
      connect: { timeout: CONNECT_MS },
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    return this.agent;
  }

  private async ask({ method, path, body, limitMs, signal }: Call): Promise<Reply> {
    const { request } = await import('undici');
    const ended = new AbortController();
    const timer = setTimeout(() => ended.abort(new Error(`no answer in ${limitMs / 1000} s`)), limitMs);
    const onAbort = () => ended.abort(signal!.reason);
    signal?.addEventListener('abort', onAbort);
    try {
      signal?.throwIfAborted();
      const response = await request(`${this.address}${path}`, {
        method,
        dispatcher: await this.dispatcher(),
        signal: ended.signal,
        headers: {
          'user-agent': 'acoer',
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...(this.key !== null && { authorization: `Bearer ${this.key}` }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await limitedText(response.body);
      return { status: response.statusCode, text, retryAfterMs: retryAfter(response.headers['retry-after']) };
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof ServerFault) throw error;
      throw new ServerFault('passing', reasonOf(error), null, { cause: error });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    }
  }
}

async function limitedText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of body) {
    bytes += part.length;
    if (bytes > MOST_BYTES) throw new ServerFault('wrong', `its answer is longer than ${MOST_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

function retryAfter(header: string | string[] | undefined): number | null {
  const seconds = Number(header);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(LONGEST_RETRY_MS, 1000 * seconds) : null;
}
