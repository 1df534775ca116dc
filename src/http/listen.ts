/** What the servers of this program share: listening, strangers, and ending. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { badUsage, errorCode, errorMessage, type AcoerError } from '../base/errors';

/** Ports tried one after another when none was given. */
const PORTS_TRIED = 50;

function listenError(error: unknown, host: string, port: number): AcoerError {
  const texts: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} is in use: name another with --port, or leave it out.`,
    EACCES: `Port ${port} is reserved: name one above 1023 with --port.`,
  };
  const other = `Cannot listen on ${host}: ${errorMessage(error)}; name an address of this machine with --host.`;
  return badUsage(texts[errorCode(error) ?? ''] ?? other, error);
}

/**
 * Listens on the port given, or on the first one from `first` on that is free; resolves to it.
 * @throws BAD_CONFIG
 */
export async function listenSomewhere(
  server: Server,
  host: string,
  { given, first }: { given: number | undefined; first: number },
): Promise<number> {
  // Node listens on every interface when the host is empty, as an unset variable is.
  if (host.trim() === '') throw badUsage('--host is empty: name an address to listen on, or leave it out.');
  const last = given ?? first + PORTS_TRIED - 1;
  for (let port = given ?? first; ; port++) {
    try {
      server.listen(port, host);
      await once(server, 'listening');
      return (server.address() as AddressInfo).port;
    } catch (error) {
      if (errorCode(error) !== 'EADDRINUSE' || port === last) throw listenError(error, host, port);
    }
  }
}

/** Lets those without the secret not keep others out: one connection too many closes the oldest of theirs. */
class Strangers {
  /** Oldest first. */
  private readonly sockets = new Set<Socket>();

  constructor(private readonly most: number) {}

  add(socket: Socket): void {
    this.sockets.add(socket);
    socket.once('close', () => this.sockets.delete(socket));
    if (this.sockets.size <= this.most) return;
    const [oldest] = this.sockets;
    oldest!.destroy();
    this.sockets.delete(oldest!);
  }

  /** The connection has shown the secret. */
  trust(socket: Socket): void {
    this.sockets.delete(socket);
  }
}

/** What one caller may take of a server. */
export interface ServerLimits {
  headerBytes: number;
  headersMs: number;
  /** To receive a whole request. */
  requestMs: number;
  keepAliveMs: number;
  checkMs: number;
  connections: number;
  /** How many of these may not have shown the secret. */
  strangers: number;
}

/** @param handle calls `trust` once the secret has been shown */
export function makeServer(
  limits: ServerLimits,
  handle: (request: IncomingMessage, response: ServerResponse, trust: () => void) => void,
): Server {
  const strangers = new Strangers(limits.strangers);
  const server = createServer(
    {
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: limits.checkMs,
      // Checked by the guard, which also answers requests of HTTP/1.0.
      requireHostHeader: false,
    },
    (request, response) => handle(request, response, () => strangers.trust(request.socket)),
  );
  admitConnections(server, strangers, limits.connections);
  return server;
}

/** What is said to a connection that brings no request, by why; 408 is one that clients send again. */
const UNREADABLE: Readonly<Record<string, string>> = {
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
};

/** Answers what is no HTTP, and keeps strangers few. */
function admitConnections(server: Server, strangers: Strangers, most: number): void {
  server.maxConnections = most;
  server.on('connection', (socket: Socket) => strangers.add(socket));
  server.on('clientError', (error, socket: Socket) => {
    const status = UNREADABLE[errorCode(error) ?? ''] ?? '400 Bad Request';
    if (socket.writable) socket.write(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
    // An end alone would leave the other half open for as long as the client likes.
    socket.destroySoon();
  });
}

/** Takes no more connections, and after `graceMs` cuts those that are left. */
export function closeServer(server: Server, graceMs: number): Promise<void> {
  return new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
    setTimeout(() => server.closeAllConnections(), graceMs).unref();
  });
}
