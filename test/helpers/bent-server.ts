/** A server of completions on loopback: `acoer serve` in this process, whose answers a test may bend on their way. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { openModel, type ChatModel } from '../../src/chat';
import { startServer, type ModelServer } from '../../src/serve';

/** A request as it came. */
export interface Asked {
  path: string;
  body: Record<string, unknown>;
  key: string | undefined;
}

export interface Reply {
  status: number;
  text: string;
  headers?: Record<string, string>;
}

/** Makes the reply; `real` asks the server behind. null: the connection is cut. */
export type Bend = (asked: Asked, real: (body?: object) => Promise<Reply>) => Promise<Reply | null>;

/** What changes the JSON of a reply. */
export const bent = async (
  real: Promise<Reply>,
  change: (json: Record<string, never>) => void,
): Promise<Reply> => {
  const reply = await real;
  const json = JSON.parse(reply.text) as Record<string, never>;
  change(json);
  return { ...reply, text: JSON.stringify(json) };
};

export class BentServer {
  /** Null: replies are the real ones. */
  bend: Bend | null = null;
  readonly asked: Asked[] = [];
  private readonly front = http.createServer((request, response) => {
    this.answer(request, response).catch(() => response.destroy());
  });

  private constructor(
    private readonly model: ChatModel,
    private readonly back: ModelServer,
  ) {}

  static async start(model: string, loraRoot: string): Promise<BentServer> {
    const served = await openModel(model, { device: 'cpu', threads: 1, idleMs: Infinity, keepBytes: 0 });
    const server = new BentServer(served, await startServer(served, { port: 0, key: null, loraRoot }));
    await server.listen();
    return server;
  }

  private port = 0;
  private async listen(): Promise<void> {
    await new Promise<void>((done, failed) => {
      this.front.once('error', failed);
      this.front.listen(this.port, '127.0.0.1', done);
    });
    this.port = (this.front.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Requests for completions so far. */
  get completions(): Asked[] {
    return this.asked.filter(({ path }) => path === '/v1/completions');
  }

  get adapters(): string[] {
    return this.model.names.filter((name) => name.startsWith('acoer-'));
  }

  /** As a process that was started again: no adapter is known. */
  async forget(): Promise<void> {
    for (const name of this.adapters) await this.model.removeAdapter(name);
  }

  /** Nothing listens any more until `up`. */
  async down(): Promise<void> {
    this.front.closeAllConnections();
    await new Promise((done) => this.front.close(done));
  }

  up(): Promise<void> {
    return this.listen();
  }

  async stop(): Promise<void> {
    await this.down();
    await this.back.close();
    await this.model.dispose();
  }

  private async answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const text = Buffer.concat(parts).toString();
    const body = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
    const path = request.url!;
    const asked = { path, body, key: request.headers.authorization };
    this.asked.push(asked);
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const real = async (other?: object): Promise<Reply> => {
      const sent = text === '' ? {} : { method: 'POST', body: other ? JSON.stringify(other) : text };
      const got = await fetch(`http://127.0.0.1:${this.back.port}${path}`, { ...sent, signal: gone.signal });
      return { status: got.status, text: await got.text() };
    };
    const reply = await (this.bend === null ? real() : this.bend(asked, real));
    if (reply === null) {
      request.socket.destroy();
      return;
    }
    response.writeHead(reply.status, reply.headers).end(reply.text);
  }
}
