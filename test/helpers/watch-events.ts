/** Reads the server-sent events of a live page's server, as a browser does. */
import type { WireEvents } from '../../src/watch/wire';

interface Received {
  name: string;
  id: string;
  data: unknown;
}

const field = (block: string, name: string): string =>
  block
    .split('\n')
    .find((line) => line.startsWith(`${name}: `))
    ?.slice(name.length + 2) ?? '';

export class WatchEvents {
  readonly received: Received[] = [];
  /** What the browser would send as Last-Event-ID. */
  lastId = '';
  private taken = 0;
  private woken: () => void = () => undefined;
  private readonly stop = new AbortController();

  /** @param address of the page; @param at positions, as `run.epoch.lines` */
  constructor(address: string, at = '', headers: Record<string, string> = {}) {
    void this.read(`${address}events?at=${at}`, headers).catch(() => undefined);
  }

  private async read(address: string, headers: Record<string, string>): Promise<void> {
    const response = await fetch(address, { headers, signal: this.stop.signal });
    const decoder = new TextDecoder();
    let text = '';
    for await (const chunk of response.body!) {
      text += decoder.decode(chunk as Uint8Array, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop()!;
      for (const block of blocks) this.take(block);
      this.woken();
    }
  }

  private take(block: string): void {
    const [name, id] = [field(block, 'event'), field(block, 'id')];
    if (id !== '') this.lastId = id;
    if (name !== '') this.received.push({ name, id, data: JSON.parse(field(block, 'data')) });
  }

  /** The next event of this name for which `wanted` holds; earlier ones are passed over. */
  async next<K extends keyof WireEvents>(
    name: K,
    wanted: (data: WireEvents[K]) => boolean = () => true,
    withinMs = 10_000,
  ): Promise<WireEvents[K]> {
    const until = Date.now() + withinMs;
    for (;;) {
      while (this.taken < this.received.length) {
        const event = this.received[this.taken++]!;
        if (event.name === name && wanted(event.data as WireEvents[K])) return event.data as WireEvents[K];
      }
      const leftMs = until - Date.now();
      const seen = this.received.map((event) => event.name).join(' ');
      if (leftMs <= 0) throw new Error(`no such event "${name}" within ${withinMs} ms, but: ${seen}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.woken = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  close(): void {
    this.stop.abort();
  }
}
