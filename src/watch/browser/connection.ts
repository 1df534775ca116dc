/** The page's stream of events, which comes back after a lost connection or a sleep of the machine. */
import type { RunEntry, WireEvents } from '../wire';

export type Status = 'connecting' | 'live' | 'lost' | 'ended';

export type Handlers = { [K in keyof WireEvents]: (data: WireEvents[K]) => void };

/** The server sends something at least every 15 s. */
const SILENT_MS = 40_000;
const CHECK_MS = 5_000;
/** Timers that are this late have slept. */
const SLEPT_MS = 20_000;
const RETRY_MS = 2_000;
/** A browser opens six connections to a server, so a hidden page gives its own back and asks now and then. */
const HIDDEN_AFTER_MS = 30_000;
const HIDDEN_ASK_MS = 15_000;

/** @throws with the server's sentence, or what went wrong on the way */
export async function getJson<T>(address: string): Promise<T> {
  const response = await fetch(address);
  const value: unknown = response.headers.get('content-type')?.startsWith('application/json')
    ? await response.json()
    : null;
  if (response.ok) return value as T;
  const problem = (value as { problem?: unknown } | null)?.problem;
  throw new Error(typeof problem === 'string' ? problem : `The server answered ${response.status}.`);
}

export class Connection {
  private source: EventSource | null = null;
  private heardAt = Date.now();
  private checkedAt = Date.now();
  private hiddenAt: number | null = null;
  private askedAt = 0;
  private retry: number | null = null;
  private over = false;

  /**
   * @param positions how far the page has read the runs it shows
   * @param listed called with the list while the page is hidden
   */
  constructor(
    private readonly positions: () => string,
    private readonly handlers: Handlers,
    private readonly onStatus: (status: Status) => void,
    private readonly listed: (entries: RunEntry[]) => void,
  ) {
    window.setInterval(() => void this.check(), CHECK_MS);
    document.addEventListener('visibilitychange', () => this.visibility());
    window.addEventListener('online', () => this.connect());
    window.addEventListener('pageshow', (event) => {
      if (event.persisted) this.connect();
    });
  }

  /** Connects, or connects again with the page's positions. */
  connect(): void {
    if (this.over) return;
    this.disconnect();
    this.onStatus('connecting');
    const source = new EventSource(`events?at=${this.positions()}`);
    this.source = source;
    this.heardAt = Date.now();
    source.addEventListener('open', () => this.onStatus('live'));
    for (const name of Object.keys(this.handlers) as (keyof WireEvents)[]) {
      source.addEventListener(name, (event: MessageEvent<string>) => {
        if (this.source !== source) return;
        this.heardAt = Date.now();
        if (name === 'bye') this.end();
        (this.handlers[name] as (data: unknown) => void)(JSON.parse(event.data));
      });
    }
    source.addEventListener('error', () => {
      if (this.source === source) void this.lost();
    });
  }

  private disconnect(): void {
    this.source?.close();
    this.source = null;
    if (this.retry !== null) window.clearTimeout(this.retry);
    this.retry = null;
  }

  private end(): void {
    this.over = true;
    this.disconnect();
    this.onStatus('ended');
  }

  /** Tries again, unless the server says that it does not know this address: it is another one by now. */
  private async lost(): Promise<void> {
    this.disconnect();
    this.onStatus('lost');
    try {
      const { status } = await fetch('watch-style.css', { method: 'HEAD' });
      if (status === 404 || status === 403) return this.end();
    } catch {
      // Not reachable; it may come back.
    }
    if (this.source === null && this.retry === null && !this.over) {
      this.retry = window.setTimeout(() => this.connect(), RETRY_MS);
    }
  }

  private visibility(): void {
    this.hiddenAt = document.hidden ? Date.now() : null;
    if (!document.hidden && this.source === null) this.connect();
  }

  private async check(): Promise<void> {
    const now = Date.now();
    const slept = now - this.checkedAt > SLEPT_MS && !document.hidden;
    this.checkedAt = now;
    if (this.over) return;
    if (this.hiddenAt !== null && now - this.hiddenAt > HIDDEN_AFTER_MS) {
      this.disconnect();
      if (now - this.askedAt > HIDDEN_ASK_MS) await this.ask(now);
    } else if (this.source !== null && (slept || now - this.heardAt > SILENT_MS)) {
      this.connect();
    }
  }

  private async ask(now: number): Promise<void> {
    this.askedAt = now;
    try {
      this.listed(await getJson<RunEntry[]>('runs'));
    } catch {
      // The page connects again when it is seen, and says then what is wrong.
    }
  }
}
