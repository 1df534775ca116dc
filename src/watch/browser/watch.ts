/** The live page of `acoer watch`: routes between the list and runs, and feeds them from the server's events. */
import { bareDetails, type RunDetails, type RunEntry, type WireSeries } from '../wire';
import { Connection, getJson, type Handlers, type Status } from './connection';
import { fill, h, setText } from '../../report/browser/dom';
import { grouped } from '../../base/text';
import { ListView } from './list-view';
import { RunModel } from './model';
import { RunView } from './run-view';
import { themeButton } from './theme';

const STATUS: Readonly<Record<Status, string>> = {
  connecting: 'connecting',
  live: 'live',
  lost: 'connection lost, trying again',
  ended: 'the server has ended; run acoer watch again',
};

class App {
  private readonly entries = new Map<string, RunEntry>();
  private notes: readonly string[] = [];
  private known = false;
  private models: RunModel[] = [];
  private view: RunView | null = null;
  private readonly list = new ListView((ids) => (location.hash = `#/runs/${ids.join(',')}`));
  private readonly main = h('main', { id: 'main', tabindex: -1 });
  private readonly status = h('span', { class: 'status small connecting', role: 'status' });
  private readonly back = h('a', { href: '#/', class: 'back' }, 'All runs');
  private readonly connection: Connection;
  /** Raised by every change of route: what was fetched for an earlier one is dropped. */
  private visit = 0;

  constructor() {
    const theme = themeButton(() => this.view?.recolour());
    const name = h('span', {}, h('strong', {}, 'acoer'), h('span', { class: 'muted' }, ' watch'));
    const bar = h('header', { class: 'top' }, name, this.back, this.status, theme);
    document.body.append(h('a', { href: '#main', class: 'skip' }, 'Skip to the content'), bar, this.main);
    document.querySelector('.skip')!.addEventListener('click', (event) => {
      // The address after # is the page's own.
      event.preventDefault();
      this.main.focus();
    });
    this.connection = new Connection(
      () =>
        this.models
          .filter((model) => model.loaded)
          .map((model) => model.position)
          .join(','),
      this.handlers(),
      (status) => this.showStatus(status),
      (entries) => this.listed(entries),
    );
    window.addEventListener('hashchange', () => void this.go());
    window.setInterval(() => this.view?.updateHead(), 30_000);
  }

  private handlers(): Handlers {
    return {
      runs: ({ changed, removed, single, notes }) => {
        for (const id of removed) this.entries.delete(id);
        for (const entry of changed) this.entries.set(entry.id, entry);
        this.notes = notes;
        this.known = true;
        this.back.hidden = single;
        const [only] = this.entries.keys();
        if (single && this.view === null && only !== undefined) location.replace(`#/runs/${only}`);
        this.showEntries();
      },
      lines: (lines) => {
        const model = this.model(lines.id);
        if (model === undefined) return;
        if (model.append(lines)) this.view?.updateLines();
        else void this.reload(model);
      },
      details: ({ id, details }) => this.details(id, details),
      progress: ({ id, progress }) => {
        const model = this.model(id);
        if (model === undefined) return;
        model.progress = progress;
        this.view?.updateProgress();
      },
      reload: ({ id }) => {
        const model = this.model(id);
        if (model !== undefined) void this.reload(model);
      },
      beat: () => undefined,
      bye: () => undefined,
    };
  }

  private model(id: string): RunModel | undefined {
    return this.models.find((model) => model.id === id);
  }

  private details(id: string, details: RunDetails): void {
    const model = this.model(id);
    if (model === undefined) return;
    model.details = details;
    this.view?.updateDetails();
    this.view?.updateHead();
  }

  private listed(entries: readonly RunEntry[]): void {
    this.entries.clear();
    for (const entry of entries) this.entries.set(entry.id, entry);
    this.showEntries();
  }

  private showEntries(): void {
    for (const model of this.models) model.entry = this.entries.get(model.id) ?? model.entry;
    if (this.view === null) this.list.update([...this.entries.values()], this.notes, this.known);
    else this.view.updateHead();
    this.showTitle();
  }

  /** The tab's title says how far the run is, also while the tab is in the background. */
  private showTitle(): void {
    const [entry] = this.models.map((model) => model.entry);
    if (this.models.length > 1) document.title = `${this.models.length} runs \u00b7 acoer`;
    else if (entry) {
      const of = entry.maxSteps === 0 ? '' : `/${grouped(entry.maxSteps)}`;
      const state = entry.health === 'healthy' || entry.health === null ? entry.state : entry.health;
      document.title = `${grouped(entry.step)}${of} ${state} \u00b7 ${entry.name}`;
    } else {
      const running = [...this.entries.values()].filter(({ state }) => state === 'running').length;
      document.title = `${running} running \u00b7 acoer watch`;
    }
  }

  private showStatus(status: Status): void {
    this.status.className = `status small ${status}`;
    setText(this.status, STATUS[status]);
  }

  /** Shows what the address names. */
  async go(): Promise<void> {
    const visit = ++this.visit;
    const ids = /^#\/runs\/([0-9a-f]{16}(?:,[0-9a-f]{16}){0,6})$/.exec(location.hash)?.[1]?.split(',') ?? [];
    this.view?.destroy();
    this.view = null;
    this.models = [...new Set(ids)].map((id) => new RunModel(id));
    if (this.models.length === 0) {
      fill(this.main, this.list.element);
      this.showEntries();
      this.connection.connect();
      return;
    }
    this.view = new RunView(this.models);
    fill(this.main, this.view.element);
    window.scrollTo(0, 0);
    this.showEntries();
    await Promise.all(this.models.map((model) => this.fetch(model)));
    if (visit === this.visit) this.connection.connect();
  }

  private async fetch(model: RunModel): Promise<void> {
    try {
      model.load(await getJson<WireSeries>(`series?run=${model.id}`));
      const view = this.view;
      if (!this.models.includes(model) || view === null) return;
      view.updateLines();
      view.reloaded();
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      this.details(model.id, bareDetails('', [`The run cannot be read: ${text}`]));
    }
  }

  /** Fetches a run whose lines were taken back, and continues from there. */
  private async reload(model: RunModel): Promise<void> {
    const visit = this.visit;
    await this.fetch(model);
    if (visit === this.visit) this.connection.connect();
  }
}

void new App().go();
