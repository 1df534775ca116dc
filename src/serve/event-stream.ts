/** Server-sent events for one reader, no faster than it reads. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

export class EventStream {
  /** @param gone fires when the reader has gone */
  constructor(
    private readonly response: ServerResponse,
    private readonly gone: AbortSignal,
  ) {}

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
    this.gone.throwIfAborted();
    if (!this.response.write(`data: ${data}\n\n`)) await once(this.response, 'drain', { signal: this.gone });
  }
}
