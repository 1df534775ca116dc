/** All figures of one or several runs, in their groups. */
import { FIGURE_GROUPS } from '../../report/figures';
import type { Mark } from '../../report/shown';
import { fill, h } from '../../report/browser/dom';
import { hasData, type Drawable } from './figure-data';
import { Figure, type Board } from './figure';

/** How to read and use the figures. */
function hint(several: boolean): HTMLElement {
  const lines = several ? 'Lines are moving averages.' : 'Faint: single steps. Strong: their moving average.';
  const text = `${lines} Drag to zoom into steps, double-click to show all.`;
  return h('p', { class: 'figures-hint muted small' }, text);
}

export class FiguresView implements Board {
  readonly element = h('div', { class: 'figure-groups' });
  runs: readonly Drawable[] = [];
  marks: readonly Mark[] = [];
  zoom: Board['zoom'] = null;
  private shown: Figure[] = [];
  private ids = '';
  private frame: number | null = null;
  private readonly seen = new IntersectionObserver((entries) => this.onSeen(entries), {
    rootMargin: '150px',
  });
  private readonly sized = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) this.figureOf(target)?.resize(contentRect.width);
  });

  /** @param zoomed called when the reader zooms */
  constructor(private readonly zoomed: (zoom: Board['zoom']) => void) {}

  /** Draws at the next frame. */
  update(): void {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  private draw(): void {
    const groups = FIGURE_GROUPS.map(({ title, figures }) => {
      return { title, figures: figures.filter((figure) => hasData(figure, this.runs)) };
    }).filter(({ figures }) => figures.length > 0);
    const ids = groups.flatMap(({ figures }) => figures.map(({ id }) => id)).join(' ');
    if (ids !== this.ids) this.build(groups);
    this.ids = ids;
    for (const figure of this.shown) figure.update();
  }

  private build(groups: readonly { title: string; figures: readonly Figure['figure'][] }[]): void {
    const before = new Map(this.shown.map((figure) => [figure.figure.id, figure]));
    this.shown = [];
    const sections = groups.map(({ title, figures }) => {
      const made = figures.map((figure) => before.get(figure.id) ?? new Figure(figure, this));
      this.shown.push(...made);
      return h(
        'section',
        {},
        h('h2', {}, title),
        h('div', { class: 'figures' }, ...made.map((f) => f.element)),
      );
    });
    for (const [id, figure] of before) {
      if (!this.shown.some((other) => other.figure.id === id)) figure.destroy();
    }
    fill(this.element, sections.length > 0 ? hint(this.runs.length > 1) : null, ...sections);
    this.seen.disconnect();
    this.sized.disconnect();
    for (const { element } of this.shown) {
      this.seen.observe(element);
      this.sized.observe(element.querySelector('.plot')!);
    }
  }

  private figureOf(target: Element): Figure | undefined {
    return this.shown.find(({ element }) => element === target || element.contains(target));
  }

  private onSeen(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) this.figureOf(target)?.setVisible(isIntersecting);
  }

  setCursor(step: number | null): void {
    for (const figure of this.shown) figure.follow(step);
  }

  setZoom(zoom: Board['zoom']): void {
    this.zoom = zoom;
    this.zoomed(zoom);
  }

  /** After a change of colours. */
  recolour(): void {
    for (const figure of this.shown) figure.redraw();
  }

  destroy(): void {
    if (this.frame !== null) cancelAnimationFrame(this.frame);
    this.seen.disconnect();
    this.sized.disconnect();
    for (const figure of this.shown) figure.destroy();
  }
}
