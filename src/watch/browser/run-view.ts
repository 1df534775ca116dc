/** The page of one run, or of several runs together. */
import type { LogEntry, WireSeries } from '../wire';
import { Completions } from './completions';
import { getJson } from './connection';
import { fill, h, setText } from '../../report/browser/dom';
import { FiguresView } from './figures-view';
import { Flight } from './flight';
import { ago, dotted, relative, tokens } from './format';
import { duration, grouped, percent } from '../../base/text';
import { aboutOf, monitorOf, progressOf, stateBadge } from './list-view';
import type { RunModel } from './model';
import { Tiles } from './tiles';
import { maximum } from '../../base/statistics';

export class RunView {
  readonly element: HTMLElement;
  private readonly head = h('div', { class: 'run-head' });
  private readonly problems = h('div', { class: 'notes' });
  private readonly tiles = new Tiles();
  private readonly flight = new Flight();
  private readonly log = h('ol', { class: 'log', tabindex: 0, 'aria-label': 'Events, newest first' });
  private readonly completions: Completions;
  private readonly empty = h('p', { class: 'muted', role: 'status' }, 'Reading the run\u2026');
  private readonly zoomBar = h('div', { class: 'zoom-bar' });
  private readonly zoomText = h('span');
  private readonly figures = new FiguresView((zoom) => void this.onZoom(zoom));
  private headText = '';
  private logText = '';
  private named: ReadonlySet<string> = new Set();
  private detail = 0;

  constructor(private readonly models: readonly RunModel[]) {
    const one = models.length === 1;
    this.completions = new Completions(models[0]!.id);
    const all = h('button', { type: 'button' }, 'Show all steps');
    all.addEventListener('click', () => this.figures.setZoom(null));
    this.zoomBar.append(this.zoomText, all);
    this.zoomBar.hidden = true;
    const single = [this.problems, this.tiles.element, this.flight.element];
    const events = h('section', {}, h('h2', {}, 'Events'), this.log);
    const rest = [events, this.completions.element];
    this.element = h(
      'div',
      { class: 'run' },
      this.head,
      ...(one ? single : [this.problems]),
      this.empty,
      this.zoomBar,
      this.figures.element,
      ...(one ? rest : []),
    );
    this.updateHead();
    this.updateLog([]);
  }

  /** Lines have arrived, or all of them were read anew. */
  updateLines(): void {
    const loaded = this.models.filter((model) => model.loaded);
    const filled = loaded.filter((model) => model.shown.buckets.length > 0);
    this.empty.hidden = filled.length > 0;
    if (loaded.length === this.models.length) {
      setText(this.empty, 'No step has ended yet. The figures appear with the first one.');
    }
    const width = Math.max(1, maximum(filled.map(({ shown }) => shown.buckets.width)));
    for (const model of filled) model.widen(width);
    this.figures.runs = filled.map((model) => ({ ...model.shown, name: shortName(model) }));
    this.named = new Set(this.figures.runs.map(({ name }) => name));
    this.tiles.update(this.models[0]!);
    if (filled.length > 0) this.figures.update();
  }

  updateDetails(): void {
    const { details } = this.models[0]!;
    const problems = this.models.flatMap((model) => model.details?.problems ?? []);
    fill(this.problems, ...problems.map((text) => h('p', { class: 'notice' }, text)));
    if (details === null || this.models.length > 1) return;
    this.figures.marks = details.marks;
    this.updateLog(details.log);
    this.completions.update(details.tables);
    if (this.figures.runs.length > 0) this.figures.update();
  }

  /** @param log what has happened to the run, newest first */
  private updateLog(log: readonly LogEntry[]): void {
    const text = JSON.stringify(log);
    if (text === this.logText) return;
    this.logText = text;
    const items = log.map(({ step, kind, text: said }) =>
      h(
        'li',
        { class: kind },
        h('span', { class: 'log-step number muted' }, step === null ? '' : grouped(step)),
        h('span', { class: 'log-text' }, said),
      ),
    );
    fill(this.log, ...(items.length > 0 ? items : [h('li', { class: 'muted' }, 'Nothing yet.')]));
  }

  updateProgress(): void {
    const [model] = this.models;
    this.flight.update(model!.progress, model!.entry?.maxCompletionLength ?? null);
    this.tiles.update(model!);
  }

  updateHead(): void {
    const entries = this.models.map(({ entry }) => entry);
    const paths = this.models.map(({ details }) => details?.path);
    const text = JSON.stringify([entries, paths, Math.floor(Date.now() / 30_000)]);
    if (text === this.headText) return;
    this.headText = text;
    // The keys of compared runs have their names, which the server may tell after the lines.
    if (this.models.some((model) => this.figures.runs.length > 1 && !this.named.has(shortName(model)))) {
      this.updateLines();
    }
    const [first] = this.models;
    fill(this.head, ...(this.models.length === 1 ? runHead(first!) : comparedHead(this.models)));
    this.tiles.update(first!);
  }

  recolour(): void {
    this.headText = '';
    this.updateHead();
    this.figures.recolour();
  }

  /** Fetches the steps shown in more detail. */
  private async onZoom(zoom: { from: number; to: number } | null): Promise<void> {
    const asked = ++this.detail;
    this.zoomBar.hidden = zoom === null;
    if (zoom === null) {
      for (const model of this.models) model.leavePart();
      return this.updateLines();
    }
    setText(this.zoomText, `Steps ${grouped(Math.round(zoom.from))} to ${grouped(Math.round(zoom.to))}`);
    this.figures.update();
    const [from, to] = [Math.max(0, zoom.from), Math.max(0, zoom.to)];
    const loaded = this.models.filter((model) => model.loaded);
    try {
      const parts = await Promise.all(
        loaded.map(({ id }) => getJson<WireSeries>(`series?run=${id}&from=${from}&to=${to}`)),
      );
      if (asked !== this.detail) return;
      loaded.forEach((model, i) => model.loadPart(parts[i]!));
      this.updateLines();
    } catch {
      // The coarser lines stay; a lost connection is shown at the top of the page.
    }
  }

  /** The run was read anew: a part of it that is shown has to be fetched again. */
  reloaded(): void {
    if (this.figures.zoom !== null) void this.onZoom(this.figures.zoom);
  }

  destroy(): void {
    this.figures.destroy();
  }
}

const LONGEST_NAME = 28;

function shortName({ entry, id }: RunModel): string {
  const name = entry?.name ?? id;
  return name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}\u2026` : name;
}

function runHead({ entry, details, id }: RunModel): HTMLElement[] {
  if (entry === null) return [h('h1', {}, `Run ${id}`)];
  const { name, startedAt, updatedAt, leftMs } = entry;
  const times = [
    `started ${ago(startedAt)}`,
    updatedAt === null ? null : `last step ${ago(updatedAt)}`,
    leftMs === null ? null : `ends about ${clock(Date.now() + leftMs)}`,
  ];
  return [
    h('div', { class: 'row run-title' }, h('h1', {}, name), stateBadge(entry)),
    h('p', { class: 'muted' }, aboutOf(entry)),
    h(
      'div',
      { class: 'row run-progress' },
      progressOf(entry),
      h('span', { class: 'muted small' }, dotted(times)),
    ),
    ...(details === null ? [] : [h('p', { class: 'muted path' }, details.path)]),
    ...(entry.problem === null ? [] : [h('p', { class: 'notice' }, entry.problem)]),
  ];
}

/** `18:40`, with the day if that is not today. */
function clock(at: number): string {
  const date = new Date(at);
  const time = date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  if (at - Date.now() < 12 * 3_600_000) return time;
  return `${date.toLocaleDateString([], { weekday: 'short', day: 'numeric', month: 'short' })} ${time}`;
}

function comparedHead(models: readonly RunModel[]): HTMLElement[] {
  const rows = models.map(({ entry, id }, i) => {
    const swatch = h('span', { class: 'swatch line' });
    swatch.style.setProperty('--swatch', `var(--s${i})`);
    if (entry === null) return h('li', { class: 'row' }, swatch, id);
    const { name, accuracy, thinking, leftMs } = entry;
    const facts = [
      accuracy === null ? null : `accuracy ${percent(accuracy.now)}`,
      thinking === null
        ? null
        : `thinking ${tokens(thinking.before)} \u2192 ${tokens(thinking.now)} (${relative(thinking)})`,
      leftMs === null ? null : `${duration(leftMs)} left`,
    ];
    return h(
      'li',
      { class: 'row' },
      swatch,
      h('a', { href: `#/runs/${id}` }, name),
      stateBadge(entry),
      monitorOf(entry),
      h('span', { class: 'muted small' }, dotted(facts)),
    );
  });
  return [h('h1', {}, `${models.length} runs compared`), h('ul', { class: 'compared' }, ...rows)];
}
