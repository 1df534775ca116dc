/**
 * Open pages and what each has seen. Nothing is queued for a page: whenever it can take more, it is sent what
 * it lacks by then, so a page that does not read costs no memory.
 */
import type { ServerResponse } from 'node:http';
import { errorMessage } from '../base/errors';
import type { Runs } from './runs';
import type { Position, RunEntry, WireEvents } from './wire';

/** How often files are looked at while a page is open. */
const POLL_MS = 500;
/** The list is looked at every so many of these times. */
const LIST_EVERY = 4;
const BEAT_MS = 15_000;
/** A page that does not read for so long is dropped. */
const STUCK_MS = 60_000;
export const MOST_STREAMS = 32;
/** Runs that one page shows at a time. */
export const MOST_FOLLOWED = 8;

class Page {
  private readonly entries = new Map<string, number>();
  private readonly details = new Map<string, number>();
  private readonly progress = new Map<string, string>();
  private reloaded = new Set<string>();
  private notes = '';
  private first = true;
  private readAt = Date.now();
  private sentAt = Date.now();

  /** @param positions of the runs that the page shows */
  constructor(
    private readonly response: ServerResponse,
    private readonly positions: Map<string, Position>,
  ) {
    response.on('drain', () => (this.readAt = Date.now()));
  }

  get followed(): string[] {
    return [...this.positions.keys()];
  }

  private get blocked(): boolean {
    return this.response.writableNeedDrain;
  }

  private send<K extends keyof WireEvents>(event: K, data: WireEvents[K], id = ''): void {
    this.response.write(`${id}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    this.sentAt = Date.now();
  }

  /** What the browser gives back as Last-Event-ID when it connects again. */
  private idLine(): string {
    const parts = [...this.positions].map(([id, { epoch, lines }]) => `${id}.${epoch}.${lines}`);
    return `id: ${parts.join(',')}\n`;
  }

  /** Sends what the page lacks. @returns false: the page does not read and was dropped */
  push(runs: Runs): boolean {
    if (this.blocked) {
      if (Date.now() - this.readAt < STUCK_MS) return true;
      this.response.destroy();
      return false;
    }
    this.readAt = Date.now();
    this.pushList(runs);
    for (const id of this.positions.keys()) {
      if (!this.blocked) this.pushRun(runs, id);
    }
    if (Date.now() - this.sentAt > BEAT_MS) this.send('beat', { at: Date.now() });
    return true;
  }

  private pushList(runs: Runs): void {
    const changed: RunEntry[] = [];
    for (const id of runs.ids) {
      const { entry, version } = runs.entry(id)!;
      if (this.entries.get(id) !== version) changed.push(entry);
      this.entries.set(id, version);
    }
    const removed = [...this.entries.keys()].filter((id) => runs.entry(id) === null);
    for (const id of removed) this.entries.delete(id);
    const notes = runs.notes.join('\n');
    if (!this.first && changed.length === 0 && removed.length === 0 && notes === this.notes) return;
    this.first = false;
    this.notes = notes;
    this.send('runs', { changed, removed, single: runs.single, notes: runs.notes });
  }

  private pushRun(runs: Runs, id: string): void {
    const run = runs.openedRun(id);
    if (run === null) return;
    const lines = run.series.since(id, this.positions.get(id)!);
    if (lines === null) {
      // Once: the page connects again with its new position.
      if (!this.reloaded.has(id)) this.send('reload', { id });
      this.reloaded.add(id);
    } else if (lines.steps.length > 0) {
      this.positions.set(id, { epoch: lines.epoch, lines: lines.lines });
      this.send('lines', lines, this.idLine());
    }
    if (this.details.get(id) !== run.version) this.send('details', { id, details: run.details });
    this.details.set(id, run.version);
    const progress = JSON.stringify(run.progress);
    if (this.progress.get(id) !== progress) this.send('progress', { id, progress: run.progress });
    this.progress.set(id, progress);
  }

  end(): void {
    this.send('bye', {});
    this.response.end();
  }
}

/** How far a page says it has read: `run.epoch.lines`, separated by commas. null: it says something else. */
export function parsePositions(text: string): Map<string, Position> | null {
  const parts = text === '' ? [] : text.split(',');
  if (parts.length > MOST_FOLLOWED) return null;
  const positions = new Map<string, Position>();
  for (const part of parts) {
    const match = /^([0-9a-f]{16})\.([0-9a-f]{12})\.(\d{1,9})$/.exec(part);
    if (match === null) return null;
    positions.set(match[1]!, { epoch: match[2]!, lines: Number(match[3]) });
  }
  return positions;
}

/** Reads the files and serves the open pages; does nothing while there is none. */
export class Streams {
  private readonly pages = new Set<Page>();
  private timer: NodeJS.Timeout | null = null;
  private working: Promise<void> | null = null;
  private ticks = 0;
  private listedAt = 0;

  constructor(private readonly runs: Runs) {}

  get full(): boolean {
    return this.pages.size >= MOST_STREAMS;
  }

  /** The list as of now, or of two seconds ago. */
  async fresh(): Promise<void> {
    if (Date.now() - this.listedAt < LIST_EVERY * POLL_MS) return;
    await this.runs.refresh();
    this.listedAt = Date.now();
  }

  add(response: ServerResponse, positions: Map<string, Position>): void {
    const page = new Page(response, positions);
    this.pages.add(page);
    response.on('close', () => this.pages.delete(page));
    this.ticks = 0;
    if (this.working === null) this.schedule(0);
  }

  private schedule(delayMs: number): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.working = this.tick();
    }, delayMs);
  }

  /** One look at the files. @throws nothing */
  private async tick(): Promise<void> {
    this.timer = null;
    try {
      await this.look();
    } catch (error) {
      // Shown in the list; the next look may succeed.
      this.runs.notes = [`The folder cannot be read: ${errorMessage(error)}`];
    } finally {
      this.working = null;
    }
    // A page that came in the meantime gets its first events at once.
    if (this.pages.size > 0 && this.timer === null) this.schedule(this.ticks === 0 ? 0 : POLL_MS);
  }

  private async look(): Promise<void> {
    const list = this.ticks++ % LIST_EVERY === 0;
    if (list) await this.fresh();
    const followed = new Set([...this.pages].flatMap((page) => page.followed));
    for (const id of followed) await this.runs.open(id);
    for (const page of this.pages) if (!page.push(this.runs)) this.pages.delete(page);
  }

  /** Sends the last changes and ends every page's stream. */
  async close(): Promise<void> {
    // A look in progress may have read the files before their last change.
    await this.working;
    if (this.timer !== null) clearTimeout(this.timer);
    if (this.pages.size > 0) {
      this.ticks = this.listedAt = 0;
      await this.look();
    }
    for (const page of this.pages) page.end();
    this.pages.clear();
  }
}
