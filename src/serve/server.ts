/** `acoer serve`: a model, and what runs have made of it, behind OpenAI's API. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ChatModel } from '../chat';
import { badUsage } from '../base/errors';
import {
  closeServer,
  hostAllowed,
  hostInAddress,
  type HostRule,
  hostRule,
  insidePath,
  isLoopback,
  listenSomewhere,
  LOOPBACK,
  makeServer,
  sameSecret,
} from '../http';
import { packageVersion } from '../base/version';
import { answerChat, answerCompletion, type Asked } from './answering';
import { readJsonBody, sendJson } from './body';
import { ApiError, apiError, errorBody } from './errors';
import { readLoad, readUnload } from './wire';

/** vLLM's. */
export const DEFAULT_PORT = 8000;
/** Requests that may wait for a slot. */
export const DEFAULT_WAITING = 256;

const LIMITS = {
  headerBytes: 16 * 1024,
  headersMs: 10_000,
  /** To receive a whole request. */
  requestMs: 30_000,
  keepAliveMs: 30_000,
  checkMs: 2_000,
  connections: 2_048,
  /** How many of these may not have shown the key. */
  strangers: 64,
  /** For answers in progress when the server ends. */
  drainMs: 30_000,
  goodbyeMs: 200,
  retryAfterSeconds: 2,
} as const;

export interface ServeOptions {
  /** Default: 8000, or the next one that is free. 0: any that is free. */
  port?: number;
  /** Name or address of the interface to listen on. Default: 127.0.0.1, which no other machine reaches. */
  host?: string;
  /** That callers must show as `Authorization: Bearer KEY`; null: none, for this machine only. */
  key: string | null;
  /** Folder from which adapters may be loaded while serving, a real path; null: none may. */
  loraRoot?: string | null;
  /** Requests that may wait for a slot before others are refused. Default `DEFAULT_WAITING`. */
  maxWaiting?: number;
  /** Is told of errors that are no caller's. */
  onNote?: (text: string) => void;
}

export interface ModelServer {
  address: string;
  port: number;
  /** Takes no more requests, lets those in progress end for up to 30 s, and cuts off the rest. */
  close(): Promise<void>;
}

type Handler = (request: IncomingMessage, response: ServerResponse, signal: AbortSignal) => Promise<void>;
interface Route {
  method: 'GET' | 'POST';
  handle: Handler;
}

function sendError(response: ServerResponse, error: ApiError): void {
  if (response.headersSent) {
    // Into the stream that has begun; the end without [DONE] says that it is not whole.
    response.end(`data: ${JSON.stringify(errorBody(error))}\n\n`);
    return;
  }
  sendJson(response, error.status, errorBody(error), {
    ...(error.status === 401 && { 'WWW-Authenticate': 'Bearer' }),
    ...(error.retryAfterSeconds !== null && { 'Retry-After': String(error.retryAfterSeconds) }),
    // The rest of a body that was refused would be taken for a request.
    ...(error.status === 413 && { Connection: 'close' }),
  });
}

class Service {
  private readonly startedSeconds = Math.floor(Date.now() / 1000);
  private readonly note: (text: string) => void;
  private answering = 0;
  private ending = false;
  /**
   * What is in progress, each to be cut off by its own. One signal for all would keep something of every request for as
   * long as the server runs: AbortSignal.any leaves a WeakRef in its sources (seen with Node 20).
   */
  private readonly inProgress = new Set<AbortController>();
  private wasCut = false;
  private drained: () => void = () => undefined;

  constructor(
    private readonly model: ChatModel,
    private readonly hosts: HostRule,
    private readonly options: ServeOptions,
  ) {
    this.note = options.onNote ?? (() => undefined);
  }

  private readonly routes: ReadonlyMap<string, Route> = new Map<string, Route>([
    ['/v1/models', { method: 'GET', handle: async (_, response) => sendJson(response, 200, this.models()) }],
    [
      '/version',
      {
        method: 'GET',
        handle: async (_, response) => sendJson(response, 200, { version: packageVersion() }),
      },
    ],
    ['/v1/chat/completions', { method: 'POST', handle: this.asking(answerChat) }],
    ['/v1/completions', { method: 'POST', handle: this.asking(answerCompletion) }],
    [
      '/v1/load_lora_adapter',
      { method: 'POST', handle: (request, response) => this.load(request, response) },
    ],
    [
      '/v1/unload_lora_adapter',
      { method: 'POST', handle: (request, response) => this.unload(request, response) },
    ],
  ]);

  /** @param onTrusted the caller has shown the key */
  async serve(request: IncomingMessage, response: ServerResponse, onTrusted: () => void): Promise<void> {
    const stop = new AbortController();
    let left = false;
    const leave = () => {
      left = true;
      stop.abort();
    };
    response.once('close', leave);
    this.inProgress.add(stop);
    try {
      await this.answer(request, response, stop.signal, onTrusted);
    } catch (error) {
      if (left || response.destroyed) return void response.destroy();
      const ended = this.wasCut && !response.headersSent;
      sendError(response, ended ? new ApiError(503, 'The server is ending.') : apiError(error, this.note));
    } finally {
      response.off('close', leave);
      // Of several prompts one may have been refused, and the others are still answered.
      stop.abort();
      this.inProgress.delete(stop);
    }
  }

  /** Resolves when nothing is being answered, or after `ms`. */
  async drain(ms: number): Promise<void> {
    this.ending = true;
    if (this.answering === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.drained = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.wasCut = true;
    for (const stop of this.inProgress) stop.abort();
  }

  private async answer(
    request: IncomingMessage,
    response: ServerResponse,
    signal: AbortSignal,
    onTrusted: () => void,
  ): Promise<void> {
    const { headers, method } = request;
    if ((request.headersDistinct.host?.length ?? 0) > 1 || !hostAllowed(headers.host, this.hosts))
      throw new ApiError(403, 'This server does not answer under that name.');
    const path = (request.url ?? '').split('?')[0]!;
    if (path === '/health' && method === 'GET') return sendJson(response, this.ending ? 503 : 200, {});
    this.checkKey(headers.authorization);
    onTrusted();
    const route = this.routeOf(path);
    if (route.method !== method) {
      response.setHeader('Allow', route.method);
      throw new ApiError(405, `${path.slice(0, 100)} answers ${route.method}.`);
    }
    if (this.ending) throw new ApiError(503, 'The server is ending.');
    await route.handle(request, response, signal);
  }

  /** @throws ApiError */
  private checkKey(header: string | undefined): void {
    const { key } = this.options;
    if (key === null) return;
    const given = /^Bearer (\S+)$/i.exec(header ?? '')?.[1];
    if (given !== undefined && sameSecret(given, key)) return;
    const what =
      given === undefined ? 'The header "Authorization: Bearer KEY" is missing' : 'The key is wrong';
    throw new ApiError(401, `${what}; the server printed its key when it started.`, null, 'invalid_api_key');
  }

  private routeOf(path: string): Route {
    const route = this.routes.get(path);
    if (route !== undefined) return route;
    const name = /^\/v1\/models\/(.+)$/.exec(path)?.[1];
    const one = name === undefined ? undefined : this.modelCalled(name);
    if (one !== undefined)
      return { method: 'GET', handle: async (_, response) => sendJson(response, 200, one) };
    throw new ApiError(404, `There is no ${path.slice(0, 100)} here.`);
  }

  private modelCalled(name: string): object | undefined {
    try {
      const wanted = decodeURIComponent(name);
      return this.models().data.find(({ id }) => id === wanted);
    } catch {
      return undefined;
    }
  }

  private models() {
    const { names, modelName, maxModelLen } = this.model;
    const [base] = names;
    const data = names.map((id) => ({
      ...{ id, object: 'model', created: this.startedSeconds, owned_by: 'acoer', root: modelName },
      ...{ parent: id === base ? null : base, max_model_len: maxModelLen },
    }));
    return { object: 'list', data };
  }

  private asking(ask: (asked: Asked) => Promise<void>): Handler {
    return async (request, response, signal) => {
      const { maxWaiting = DEFAULT_WAITING } = this.options;
      if (this.answering >= this.model.maxSlots + maxWaiting) {
        const message = `${this.answering} requests are being answered or wait; ask again later.`;
        throw new ApiError(429, message, null, 'rate_limit_exceeded', LIMITS.retryAfterSeconds);
      }
      this.answering++;
      try {
        await ask({ model: this.model, body: await readJsonBody(request), response, signal });
      } finally {
        this.answering--;
        if (this.answering === 0) this.drained();
      }
    };
  }

  /** @throws ApiError unless adapters may come and go */
  private loraRoot(): string {
    const root = this.options.loraRoot ?? null;
    if (root !== null) return root;
    throw new ApiError(404, 'Adapters are fixed here: start the server with --allow-lora-updates.');
  }

  private async load(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const root = this.loraRoot();
    const { lora_name: name, lora_path: path } = readLoad(await readJsonBody(request));
    const real = await insidePath(root, path);
    if (real === null)
      throw new ApiError(404, `There is no such folder in the server's --lora-root.`, 'lora_path');
    await this.model.addAdapter(name, real);
    response.end(`Success: LoRA adapter '${name}' added successfully.`);
  }

  private async unload(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.loraRoot();
    const { lora_name: name } = readUnload(await readJsonBody(request));
    if (!this.model.names.includes(name))
      throw new ApiError(404, `There is no adapter ${JSON.stringify(name)} here.`, 'lora_name');
    await this.model.removeAdapter(name);
    response.end(`Success: LoRA adapter '${name}' removed successfully.`);
  }
}

/**
 * Serves a model until it is closed; the model stays the caller's.
 * @throws BAD_CONFIG if the port or host cannot be listened on, or without a key where other machines reach it
 */
export async function startServer(model: ChatModel, options: ServeOptions): Promise<ModelServer> {
  const { host = LOOPBACK, port, key } = options;
  if (key === null && !isLoopback(host))
    throw badUsage(
      `Without a key only this machine may reach the server: leave out --no-key or --host ${host}.`,
    );
  const service = new Service(model, hostRule(options.host ?? null), options);
  const server = makeServer(LIMITS, (request, response, trust) => {
    service.serve(request, response, trust).catch(() => response.destroy());
  });
  const used = await listenSomewhere(server, host, { given: port, first: DEFAULT_PORT });
  return {
    address: `http://${hostInAddress(host)}:${used}/v1`,
    port: used,
    close: async () => {
      await service.drain(LIMITS.drainMs);
      await closeServer(server, LIMITS.goodbyeMs);
    },
  };
}
