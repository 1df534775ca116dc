/** The list of runs. */
import type { Change, RunEntry } from '../wire';
import { fill, h, setText, svg } from '../../report/browser/dom';
import { ago, dotted, relative, tokens } from './format';
import { duration, grouped, percent } from '../../base/text';
import { maximum, minimum } from '../../base/statistics';

/** As many as the page has colours. */
const MOST_COMPARED = 7;
/** With fewer runs there is nothing to search. */
const SEARCHED_FROM = 8;

const running = ({ state }: RunEntry): boolean => state === 'running';

const byInterest = (a: RunEntry, b: RunEntry): number =>
  Number(running(b)) - Number(running(a)) || (b.updatedAt ?? b.startedAt) - (a.updatedAt ?? a.startedAt);

/** The model, the reward and the seed of a run. */
export const aboutOf = ({ model, reward, seed }: RunEntry): string =>
  dotted([model, reward, seed === null ? null : `seed ${seed}`]);

/** State and health of a run as a word with a coloured dot. */
export function stateBadge({ state, quietSince }: RunEntry): HTMLElement {
  const quiet = quietSince !== null;
  const text = quiet ? `silent for ${duration(Date.now() - quietSince)}` : state;
  return h('span', { class: `badge small ${quiet ? 'warn' : state}` }, text);
}

const HEADINGS = ['Run', 'State', 'Progress', 'Accuracy', 'Thinking tokens', '', 'Monitor'];

export class ListView {
  readonly element: HTMLElement;
  private readonly rows = h('tbody');
  private readonly notes = h('div', { class: 'notes' });
  private readonly empty = h('p', { class: 'muted' }, 'Looking for runs\u2026');
  private readonly summary = h('p', { class: 'muted', role: 'status' });
  private readonly search = h('input', { type: 'search', placeholder: 'Name, model or reward' });
  private readonly compare = h('button', { type: 'button', class: 'primary' });
  private readonly searchLabel = h('label', { class: 'search' }, 'Find ', this.search);
  private readonly table: HTMLElement;
  private readonly ticked = new Set<string>();
  private readonly made = new Map<string, { text: string; row: HTMLElement }>();
  private entries: readonly RunEntry[] = [];

  /** @param onCompare called with the runs to show together */
  constructor(onCompare: (ids: string[]) => void) {
    const head = h(
      'tr',
      { role: 'row' },
      h('th', { role: 'columnheader', class: 'tick' }, hidden('Compare')),
      ...HEADINGS.map((name) =>
        h('th', { scope: 'col', role: 'columnheader' }, name === '' ? hidden('Course of thinking') : name),
      ),
    );
    this.rows.setAttribute('role', 'rowgroup');
    this.table = h(
      'table',
      { class: 'runs', role: 'table' },
      h('thead', { role: 'rowgroup' }, head),
      this.rows,
    );
    this.compare.addEventListener('click', () => onCompare([...this.ticked]));
    this.search.addEventListener('input', () => this.render());
    const tools = h('div', { class: 'row list-tools' }, this.searchLabel, this.compare);
    this.element = h(
      'div',
      { class: 'list' },
      h('div', { class: 'row list-head' }, h('div', {}, h('h1', {}, 'Runs'), this.summary), tools),
      this.notes,
      this.table,
      this.empty,
    );
    this.render();
  }

  /** @param known whether the server has told of its runs yet */
  update(entries: readonly RunEntry[], notes: readonly string[], known: boolean): void {
    this.entries = [...entries].sort(byInterest);
    for (const id of this.ticked) if (!entries.some((entry) => entry.id === id)) this.ticked.delete(id);
    fill(this.notes, ...notes.map((note) => h('p', { class: 'notice' }, note)));
    if (known) {
      setText(this.empty, 'There is no run in this folder yet. One that starts appears here by itself.');
    }
    this.render();
  }

  private render(): void {
    const words = this.search.value.toLowerCase().split(/\s+/);
    const shown = this.entries.filter(({ name, model, reward }) => {
      const text = `${name} ${model} ${reward}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const rows = shown.map((entry) => this.row(entry));
    const same =
      rows.length === this.rows.children.length && rows.every((row, i) => row === this.rows.children[i]);
    // Moving a row would take the focus from what is in it.
    if (!same) fill(this.rows, ...rows);
    const count = this.entries.filter(running).length;
    setText(this.summary, `${this.entries.length} in this folder, ${count} running`);
    this.empty.hidden = this.entries.length > 0;
    this.table.hidden = this.entries.length === 0;
    this.searchLabel.hidden = this.entries.length < SEARCHED_FROM;
    this.showTicked();
  }

  private showTicked(): void {
    const n = this.ticked.size;
    this.compare.hidden = this.entries.length < 2;
    this.compare.disabled = n < 2 || n > MOST_COMPARED;
    const text = n > MOST_COMPARED ? `At most ${MOST_COMPARED} at a time` : `Compare ${n}`;
    setText(this.compare, n < 2 ? 'Tick runs to compare' : text);
  }

  /** The row of a run, made anew if something in it has changed. */
  private row(entry: RunEntry): HTMLElement {
    const text = JSON.stringify(entry) + (entry.quietSince === null ? '' : Math.floor(Date.now() / 60_000));
    const before = this.made.get(entry.id);
    if (before?.text === text) return before.row;
    const focused = before?.row.contains(document.activeElement) === true;
    const where = focused && document.activeElement instanceof HTMLInputElement ? 'input' : 'a';
    const row = before?.row ?? h('tr', { role: 'row', 'data-run': entry.id });
    fill(row, this.tickCell(entry), ...cells(entry));
    if (focused) row.querySelector<HTMLElement>(where)?.focus();
    this.made.set(entry.id, { text, row });
    return row;
  }

  private tickCell({ id, name }: RunEntry): HTMLElement {
    const tick = h('input', { type: 'checkbox', 'aria-label': `Compare ${name}` });
    tick.checked = this.ticked.has(id);
    tick.addEventListener('change', () => {
      if (tick.checked) this.ticked.add(id);
      else this.ticked.delete(id);
      this.showTicked();
    });
    return h('td', { class: 'tick', role: 'cell' }, tick);
  }
}

const hidden = (text: string): HTMLElement => h('span', { class: 'hidden' }, text);

function cells(entry: RunEntry): HTMLElement[] {
  const { id, name, updatedAt, startedAt, accuracy, thinking, course } = entry;
  const cell = (kind: string, label: string, ...children: (Node | string | null)[]) =>
    h('td', { class: kind, role: 'cell', 'data-label': label }, ...children);
  return [
    cell(
      'name',
      '',
      h('a', { href: `#/runs/${id}` }, name),
      h('div', { class: 'muted small' }, aboutOf(entry)),
      entry.problem === null ? null : h('div', { class: 'bad small' }, entry.problem),
    ),
    cell('state', '', stateBadge(entry), h('div', { class: 'muted small' }, ago(updatedAt ?? startedAt))),
    cell('progress', '', progressOf(entry)),
    cell('value', 'Accuracy', ...changed(accuracy, percent, gained)),
    cell('value', 'Thinking', ...changed(thinking, tokens, (change) => saved(entry, change))),
    cell('course', '', sparkline(course, `Thinking tokens of ${name} over its steps`)),
    cell('monitor', '', monitorOf(entry)),
  ];
}

/** A value now, what has become of it, and what it was. */
function changed(
  change: Change | null,
  shown: (value: number) => string,
  difference: (change: Change) => HTMLElement,
): (HTMLElement | string)[] {
  if (change === null) return ['\u2013'];
  return [
    h('span', {}, `${shown(change.now)} `, difference(change)),
    h('div', { class: 'muted small' }, `from ${shown(change.before)}`),
  ];
}

/** A fall of accuracy by as much as the paper calls a collapse. */
const FALL = 0.05;

const fell = ({ health, accuracy }: RunEntry): boolean =>
  health === 'collapsed' || (accuracy !== null && accuracy.before - accuracy.now >= FALL);

/** Fewer tokens are good only if nothing was lost for them. */
const saved = (entry: RunEntry, change: Change): HTMLElement => {
  const good = change.now < change.before && entry.health === 'healthy' && !fell(entry);
  return h('span', { class: good ? 'good' : 'muted' }, relative(change));
};

/** `-34.1`, in points. */
function gained({ before, now }: Change): HTMLElement {
  const points = (100 * (now - before)).toFixed(1).replace('-', '\u2212');
  return h('span', { class: before - now >= FALL ? 'bad' : 'muted' }, now < before ? points : `+${points}`);
}

export function monitorOf({ health, rollbacks }: RunEntry): HTMLElement {
  const text = `${rollbacks} rollback${rollbacks === 1 ? '' : 's'}`;
  return h(
    'span',
    {},
    health === null ? '\u2013' : h('span', { class: `badge small ${health}` }, health),
    rollbacks === 0 ? null : h('div', { class: 'muted small' }, text),
  );
}

/** A bar with the step and the time that is left. */
export function progressOf({ step, maxSteps, leftMs }: RunEntry): HTMLElement {
  const share = maxSteps === 0 ? 0 : Math.min(1, step / maxSteps);
  const done = h('span');
  done.style.width = `${(100 * share).toFixed(1)}%`;
  const bar = h('span', { class: 'bar', 'aria-hidden': 'true' }, done);
  const left = leftMs === null ? '' : `, ${duration(leftMs)} left`;
  const of = maxSteps === 0 ? '' : ` / ${grouped(maxSteps)}`;
  return h('span', { class: 'step-bar' }, bar, h('span', { class: 'small' }, `${grouped(step)}${of}${left}`));
}

/** Of a sparkline. */
const WIDTH = 120;
const HEIGHT = 28;

/** A small line without axes. @param label what a screen reader says */
function sparkline(points: readonly (readonly [number, number])[], label: string): SVGElement {
  const element = svg('svg', {
    class: 'spark',
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    width: WIDTH,
    height: HEIGHT,
    role: 'img',
    'aria-label': label,
  });
  if (points.length < 2) return element;
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, right] = [minimum(xs), maximum(xs)];
  const high = Math.max(maximum(ys), 1e-9);
  const place = ([x, y]: readonly [number, number]) =>
    `${(2 + ((x - left) / (right - left || 1)) * (WIDTH - 6)).toFixed(1)} ${(HEIGHT - 3 - (y / high) * (HEIGHT - 6)).toFixed(1)}`;
  const path = points.map(place);
  const [cx, cy] = path.at(-1)!.split(' ');
  const line = { fill: 'none', stroke: 'var(--s0)', 'stroke-width': 1.5, 'stroke-linejoin': 'round' };
  element.append(
    svg('path', { d: `M${path.join('L')}`, ...line }),
    svg('circle', { cx: cx!, cy: cy!, r: 2.5, fill: 'var(--s0)' }),
  );
  return element;
}
