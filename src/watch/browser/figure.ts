/** One figure over steps: a uPlot chart with its key, marks, cursor and keyboard. */
import uPlot from 'uplot';
import { formatValue, type TimeFigure } from '../../report/figures';
import type { Mark } from '../../report/shown';
import { fill, h, setAttributes, setText } from '../../report/browser/dom';
import { drawnFigure, type Drawable, type DrawnFigure, type DrawnLine, type Style } from './figure-data';
import { drawMarks, markNear } from './marks';
import { variable } from '../../report/browser/theme';
import { colour } from './theme';
import { maximum } from '../../base/statistics';
import { grouped } from '../../base/text';

/** What all figures of a page share. */
export interface Board {
  runs: readonly Drawable[];
  marks: readonly Mark[];
  /** Steps shown; null: all. */
  zoom: { from: number; to: number } | null;
  /** Every figure shows its values at this step; null: the last ones. */
  setCursor(step: number | null): void;
  setZoom(zoom: { from: number; to: number } | null): void;
}

const HEIGHT = 190;
/** Dashes of a line, and what a key draws for them. */
const DASHES: readonly { pattern: number[]; key: string }[] = [
  { pattern: [], key: 'solid' },
  { pattern: [6, 4], key: 'dashed' },
  { pattern: [2, 3], key: 'dotted' },
  { pattern: [10, 4, 2, 4], key: 'dashed' },
  { pattern: [1, 5], key: 'dotted' },
];
const FONT = '12px system-ui, sans-serif';
/** Share of the range that an arrow key with shift moves by. */
const LEAP = 0.1;

const last = (values: readonly (number | null)[]): number | null =>
  values.findLast((value) => value !== null) ?? null;

export class Figure {
  readonly element: HTMLElement;
  private readonly plot = h('div', { class: 'plot' });
  private readonly key = h('div', { class: 'row key small' });
  private readonly caption = h('figcaption', { class: 'one-line' });
  private chart: uPlot | null = null;
  private drawn: DrawnFigure | null = null;
  /** Which lines there are; another signature needs a new chart. */
  private signature = '';
  private dirty = true;
  private visible = false;
  private readonly values: HTMLElement[] = [];
  /** Set while another figure moves the cursor. */
  private following = false;
  private step: number | null = null;

  constructor(
    readonly figure: TimeFigure,
    private readonly board: Board,
  ) {
    const heading = h('h3', { id: `figure-${figure.id}` }, figure.title);
    setAttributes(this.plot, {
      tabindex: 0,
      role: 'group',
      'aria-label': `${figure.title}: arrow keys read values, plus and minus zoom, Escape shows all steps`,
    });
    this.element = h(
      'figure',
      { class: 'time', 'data-figure': figure.id, 'aria-labelledby': `figure-${figure.id}` },
      heading,
      this.key,
      this.plot,
      this.caption,
    );
    this.plot.addEventListener('keydown', (event) => this.onKey(event));
    this.plot.addEventListener('blur', () => this.board.setCursor(null));
  }

  /** Draws if it is on the screen, else once it is. */
  update(): void {
    this.dirty = true;
    if (this.visible) this.draw();
  }

  setVisible(visible: boolean): void {
    this.visible = visible;
    if (visible && this.dirty) this.draw();
    else if (visible) this.follow(this.step);
  }

  private draw(): void {
    this.dirty = false;
    const drawn = drawnFigure(this.figure, this.board.runs);
    this.drawn = drawn;
    const signature = JSON.stringify(drawn.lines.map(({ style, label, colour: c }) => [style, label, c]));
    const data: uPlot.AlignedData = [drawn.x, ...drawn.lines.map(({ values }) => values)];
    if (this.chart === null || signature !== this.signature) {
      this.signature = signature;
      this.chart?.destroy();
      this.chart = new uPlot(this.options(drawn.lines), data, this.plot);
      this.makeKey(drawn.lines);
    } else {
      this.chart.setData(data);
    }
    this.showValues();
  }

  /** For a change of colours or of the width of the page. */
  redraw(): void {
    this.signature = '';
    this.update();
  }

  resize(width: number): void {
    if (this.chart !== null && width > 0 && width !== this.chart.width) {
      this.chart.setSize({ width, height: HEIGHT });
    }
  }

  private options(lines: readonly DrawnLine[]): uPlot.Options {
    const grid = { stroke: variable('--line'), width: 1 };
    const axis = { stroke: variable('--muted'), font: FONT, grid, ticks: { show: false } };
    return {
      width: Math.max(200, this.plot.clientWidth),
      height: HEIGHT,
      // The last step's number is centred at the right end of its axis.
      padding: [10, 20, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: false, range: (_, low, high) => this.xRange(low, high) },
        y: { range: this.yRange },
      },
      axes: [
        { ...axis, size: 26, gap: 4, space: 70, values: (_, splits) => splits.map(stepText) },
        { ...axis, size: axisSize, gap: 6, space: 36, values: (_, splits) => splits.map(this.text) },
      ],
      series: [{}, ...lines.map(seriesOf)],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { show: false },
        // The page's own handler, which shows all steps again.
        bind: { dblclick: () => () => (this.board.setZoom(null), null) },
      },
      hooks: {
        setCursor: [() => this.onCursor()],
        setSelect: [() => this.onSelect()],
        draw: [(chart) => drawMarks(chart, this.board.marks)],
      },
    };
  }

  private xRange(low: number | null, high: number | null): [number, number] {
    const { zoom } = this.board;
    if (zoom !== null) return [zoom.from, zoom.to];
    const from = low ?? 0;
    return [from, Math.max(from + 1, high ?? 1)];
  }

  private readonly yRange = (_: uPlot, low: number | null, high: number | null): [number, number] => {
    const { fromZero, unit } = this.figure;
    const max = high ?? 1;
    const min = fromZero === true ? Math.min(0, low ?? 0) : (low ?? 0);
    const room = 0.06 * (max - min || Math.abs(max) || 1);
    const top = unit === 'fraction' && max <= 1 ? Math.min(1.02, max + room) : max + room;
    return [fromZero === true && min === 0 ? 0 : min - room, top];
  };

  private readonly text = (value: number): string => formatValue(value, this.figure.unit);

  private makeKey(lines: readonly DrawnLine[]): void {
    this.values.length = 0;
    const items = lines.flatMap((line): HTMLElement[] => {
      if (line.label === null) return [];
      const value = h('output', { class: 'value' });
      this.values.push(value);
      const swatch = h('span', { class: `swatch ${line.style}` });
      swatch.style.borderTopStyle = DASHES[line.dash % DASHES.length]!.key;
      swatch.style.setProperty('--swatch', colour(line.colour));
      return [
        h('span', { class: 'item' }, swatch, h('span', { class: 'one-line label muted' }, line.label), value),
      ];
    });
    fill(this.key, ...(lines[0]?.style === 'area' ? items.reverse() : items));
  }

  private showValues(): void {
    const { drawn, chart } = this;
    if (drawn === null || chart === null) return;
    const index = this.step === null ? null : Math.floor(chart.valToIdx(this.step) / drawn.pointsPerBucket);
    const named = drawn.lines.filter(({ label }) => label !== null);
    named.forEach(({ read }, i) => {
      const value = index === null ? last(read) : (read[index] ?? null);
      setText(this.values[i]!, value === null ? '\u2013' : this.text(value));
    });
    setText(this.caption, this.captionAt());
  }

  /** What is on the axis; at the cursor, the step and what happened there. */
  private captionAt(): string {
    const { figure, step, chart, drawn } = this;
    if (step === null || chart === null || drawn === null) return figure.axis;
    const mark = markNear(chart, this.board.marks, step);
    const { width } = this.board.runs[0]!.buckets;
    const first = Math.floor(step / width) * width;
    const where =
      width === 1 ? `step ${stepText(step)}` : `steps ${stepText(first)} to ${stepText(first + width - 1)}`;
    return mark === null ? `at ${where}` : `at ${where}: ${mark.text}`;
  }

  private onCursor(): void {
    if (this.following || this.chart === null) return;
    const { idx, left } = this.chart.cursor;
    const step = idx === null || idx === undefined || (left ?? -1) < 0 ? null : (this.drawn?.x[idx] ?? null);
    this.board.setCursor(step === null ? null : Math.floor(step));
  }

  /** Shows the values at the step under the cursor of some figure. */
  follow(step: number | null): void {
    this.step = step;
    if (!this.visible || this.chart === null) return;
    this.following = true;
    const left = step === null ? -10 : this.chart.valToPos(step, 'x');
    this.chart.setCursor({ left, top: step === null ? -10 : 0 }, false);
    this.following = false;
    this.showValues();
  }

  private onSelect(): void {
    const { chart } = this;
    if (chart === null || chart.select.width < 4) return;
    const from = chart.posToVal(chart.select.left, 'x');
    const to = chart.posToVal(chart.select.left + chart.select.width, 'x');
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.board.setZoom({ from: Math.round(from), to: Math.max(Math.round(from) + 1, Math.round(to)) });
  }

  private onKey(event: KeyboardEvent): void {
    const { x } = this.drawn ?? { x: [] };
    if (x.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.xRange(x[0]!, x.at(-1)!);
    const at = this.step ?? to;
    const { width } = this.board.runs[0]!.buckets;
    const leap = event.shiftKey ? Math.max(width, Math.round(LEAP * (to - from))) : width;
    const clamped = (step: number) => Math.max(from, Math.min(to, step));
    const zoomed = (factor: number) => {
      const half = Math.max(2, (factor * (to - from)) / 2);
      const [low, high] = [Math.max(x[0]!, Math.round(at - half)), Math.round(at + half)];
      this.board.setZoom({ from: low, to: Math.min(Math.max(low + 1, high), to + Math.round(half)) });
    };
    const actions: Readonly<Record<string, () => void>> = {
      ArrowLeft: () => this.board.setCursor(clamped(at - leap)),
      ArrowRight: () => this.board.setCursor(clamped(at + leap)),
      Home: () => this.board.setCursor(from),
      End: () => this.board.setCursor(to),
      '+': () => zoomed(0.5),
      '=': () => zoomed(0.5),
      '-': () => (2 * (to - from) >= x.at(-1)! - x[0]! ? this.board.setZoom(null) : zoomed(2)),
      Escape: () => this.board.setZoom(null),
    };
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  }

  destroy(): void {
    this.chart?.destroy();
    this.chart = null;
  }
}

function seriesOf({ style, colour: index, dash }: DrawnLine): uPlot.Series {
  const stroke = colour(index);
  const points = { show: true, size: 7, width: 0, fill: stroke, stroke };
  const styles: Readonly<Record<Style, uPlot.Series>> = {
    faint: { width: 1, alpha: 0.28 },
    taken: { width: 1.5, alpha: 0.5, dash: [3, 3] },
    area: { width: 0, fill: stroke, alpha: 0.85 },
    points: { width: 1, dash: [4, 3], points },
    line: { width: 1.75, dash: DASHES[dash % DASHES.length]!.pattern },
  };
  return { spanGaps: true, points: { show: false }, stroke, ...styles[style] };
}

const stepText = (step: number): string => grouped(Math.round(step));

/** Room for the longest label of the y axis. */
function axisSize(_: uPlot, values: string[] | null): number {
  const longest = Math.max(0, maximum((values ?? []).map((value) => value.length)));
  return Math.round(14 + 6.8 * longest);
}
