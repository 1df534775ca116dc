/** Server-sent events for one reader, no faster than it reads. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

export class EventStream {
  constructor(private readonly response: ServerResponse) {}

  open(): void {
    this.response.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    });
    this.response.flushHeaders();
  }

  /** Resolves when the reader has room for more. @throws when it has gone */
  async send(data: object): Promise<void> {
    await this.write(JSON.stringify(data));
  }

  async end(): Promise<void> {
    await this.write('[DONE]');
    this.response.end();
  }

  private async write(data: string): Promise<void> {
    if (this.response.write(`data: ${data}\n\n`)) return;
    const gone = new AbortController();
    const left = () => gone.abort();
    this.response.once('close', left);
    try {
      await once(this.response, 'drain', { signal: gone.signal });
    } finally {
      this.response.off('close', left);
    }
  }
}
