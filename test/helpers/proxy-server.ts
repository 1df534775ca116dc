/** A local HTTP proxy that logs what it is asked for and resolves every name to 127.0.0.1. */
import http from 'node:http';
import net from 'node:net';
import type { AddressInfo } from 'node:net';

export class ProxyServer {
  /** `GET http://host:port/path` and `CONNECT host:port`, in order of arrival. */
  readonly log: string[] = [];
  /** Proxy-Authorization of each request, or null. */
  readonly credentials: (string | null)[] = [];
  /** Status to answer with instead of forwarding requests; null: forward. */
  refuseWith: number | null = null;
  private readonly server = http.createServer((request, response) => this.pass(request, response));

  async start(): Promise<this> {
    this.server.on('connect', (request: http.IncomingMessage, socket: net.Socket) =>
      this.tunnel(request, socket),
    );
    await new Promise<void>((done) => this.server.listen(0, '127.0.0.1', done));
    return this;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  private note({ method, url, headers }: http.IncomingMessage): void {
    this.log.push(`${method} ${url}`);
    this.credentials.push(headers['proxy-authorization'] ?? null);
  }

  private pass(request: http.IncomingMessage, response: http.ServerResponse): void {
    this.note(request);
    if (this.refuseWith !== null) {
      response.writeHead(this.refuseWith).end();
      return;
    }
    const { hostname, port, pathname, search } = new URL(request.url!);
    const host = net.isIP(hostname) ? hostname : '127.0.0.1';
    const { method, headers } = request;
    const onward = http.request({ host, port, path: pathname + search, method, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
      answer.on('error', () => response.destroy());
    });
    onward.on('error', () => response.destroy());
    request.pipe(onward);
  }

  private tunnel(request: http.IncomingMessage, socket: net.Socket): void {
    this.note(request);
    socket.on('error', () => socket.destroy());
    if (this.refuseWith !== null) {
      socket.end(`HTTP/1.1 ${this.refuseWith} No\r\n\r\n`);
      return;
    }
    const onward = net.connect(Number(request.url!.split(':').at(-1)), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      onward.pipe(socket).pipe(onward);
    });
    onward.on('error', () => socket.destroy());
  }
}
