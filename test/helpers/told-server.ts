/** A local server that keeps what it is told. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Told {
  path: string;
  text: string;
  content: string;
  event: string;
  run: string;
  step: number;
  maxSteps: number;
  time: string;
}

export class ToldServer {
  readonly told: Told[] = [];
  /** Statuses to answer with, in turn; then 200. null: no answer at all. */
  answers: (number | null)[] = [];
  /** Where a redirect leads. */
  location = '';
  private readonly server = http.createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(parts).toString()) as Omit<Told, 'path'>;
      this.told.push({ path: request.url!, ...body });
      const status = this.answers.length > 0 ? this.answers.shift()! : 200;
      if (status !== null) response.writeHead(status, this.location ? { location: this.location } : {}).end();
    });
  });

  async start(): Promise<this> {
    await new Promise<void>((done) => this.server.listen(0, '127.0.0.1', done));
    return this;
  }

  url(path = ''): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/${path}`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }
}
