/** The server of `acoer watch`: one folder, one page, for the person who started it. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { isIPv6, type AddressInfo, type Socket } from 'node:net';
import { hostname } from 'node:os';
import { badUsage, errorCode, errorMessage, type AcoerError } from '../base/errors';
import { check, makeGuard } from './guard';
import { pageFiles } from './page';
import { answer, refuse, type Served } from './routes';
import { Runs } from './runs';
import { Streams } from './streams';

export const DEFAULT_PORT = 8123;
/** Ports tried one after another when none was given. */
const PORTS_TRIED = 50;
const LOOPBACK = '127.0.0.1';

const LIMITS = {
  headerBytes: 8 * 1024,
  headersMs: 10_000,
  requestMs: 15_000,
  keepAliveMs: 5_000,
  checkMs: 5_000,
  connections: 128,
  /** How many of these may not have shown the token. */
  strangers: 48,
  /** For the last events to leave. */
  goodbyeMs: 200,
} as const;

export interface WatchOptions {
  /** A run, or a folder of runs. */
  path: string;
  /** Default: 8123, or the next one that is free. 0: any that is free. */
  port?: number;
  /** Name or address of the interface to listen on. Default: 127.0.0.1, which no other machine reaches. */
  host?: string;
}

export interface WatchServer {
  /** The page's address, including its token. */
  address: string;
  port: number;
  /** Sends the last changes to the open pages, and ends. */
  close(): Promise<void>;
}

/** Lets those without the token not keep others out: one connection too many closes the oldest of theirs. */
class Strangers {
  /** Oldest first. */
  private readonly sockets = new Set<Socket>();

  add(socket: Socket): void {
    this.sockets.add(socket);
    socket.once('close', () => this.sockets.delete(socket));
    if (this.sockets.size <= LIMITS.strangers) return;
    const [oldest] = this.sockets;
    oldest!.destroy();
    this.sockets.delete(oldest!);
  }

  /** The connection has shown the token, as a page does at once. */
  trust(socket: Socket): void {
    this.sockets.delete(socket);
  }
}

function makeServer(served: Served, guard: ReturnType<typeof makeGuard>): Server {
  const strangers = new Strangers();
  const server = createServer(
    {
      maxHeaderSize: LIMITS.headerBytes,
      headersTimeout: LIMITS.headersMs,
      requestTimeout: LIMITS.requestMs,
      keepAliveTimeout: LIMITS.keepAliveMs,
      connectionsCheckingInterval: LIMITS.checkMs,
      // Checked by the guard, which also answers requests of HTTP/1.0.
      requireHostHeader: false,
    },
    (request, response) => {
      const asked = check(request, guard);
      if (typeof asked === 'number') return refuse(response, asked);
      strangers.trust(request.socket);
      answer(request, response, asked, served).catch(() => response.destroy());
    },
  );
  server.maxConnections = LIMITS.connections;
  server.on('connection', (socket: Socket) => strangers.add(socket));
  server.on('clientError', (_, socket: Socket) => {
    if (socket.writable) socket.write('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
    // An end alone would leave the other half open for as long as the client likes.
    socket.destroySoon();
  });
  return server;
}

function listenError(error: unknown, host: string, port: number): AcoerError {
  const texts: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} is in use: name another with --port, or leave it out.`,
    EACCES: `Port ${port} is reserved: name one above 1023 with --port.`,
  };
  const other = `Cannot listen on ${host}: ${errorMessage(error)}; name an address of this machine with --host.`;
  return badUsage(texts[errorCode(error) ?? ''] ?? other, error);
}

/** Listens on the port given, or on the first one from the default on that is free. */
async function listenSomewhere(server: Server, host: string, given: number | undefined): Promise<void> {
  const first = given ?? DEFAULT_PORT;
  const last = given ?? DEFAULT_PORT + PORTS_TRIED - 1;
  for (let port = first; ; port++) {
    try {
      server.listen(port, host);
      return void (await once(server, 'listening'));
    } catch (error) {
      if (errorCode(error) !== 'EADDRINUSE' || port === last) throw listenError(error, host, port);
    }
  }
}

/** A host as part of an address; `0.0.0.0` and `::` are every interface of this machine. */
function hostInAddress(host: string): string {
  if (host === '0.0.0.0' || host === '::') return hostname();
  return isIPv6(host) ? `[${host}]` : host;
}

/**
 * Serves the live page of a run or of a folder of runs until it is closed.
 *
 * @throws BAD_INPUT if there is no such folder; BAD_CONFIG if the port or host cannot be listened on
 */
export async function startWatch({ path, port, host }: WatchOptions): Promise<WatchServer> {
  // Node listens on every interface when the host is empty, as an unset variable is.
  if (host?.trim() === '') {
    throw badUsage('--host is empty: name an address to listen on, or leave it out.');
  }
  const runs = new Runs(path);
  const streams = new Streams(runs);
  const guard = makeGuard(host ?? null);
  const server = makeServer({ runs, streams, files: pageFiles() }, guard);
  const interfaceName = host ?? LOOPBACK;
  await listenSomewhere(server, interfaceName, port);
  const used = (server.address() as AddressInfo).port;
  return {
    address: `http://${hostInAddress(interfaceName)}:${used}/${guard.token}/`,
    port: used,
    close: async () => {
      await streams.close();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
        setTimeout(() => server.closeAllConnections(), LIMITS.goodbyeMs).unref();
      });
    },
  };
}
